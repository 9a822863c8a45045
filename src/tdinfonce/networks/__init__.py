"""Equinox modules. Inputs have names; they are joined only inside a network."""
