"""From run folders to tables and figures. Reads files; needs no JAX."""
