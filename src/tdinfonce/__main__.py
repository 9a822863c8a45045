"""``python -m tdinfonce`` is the command line."""

import sys

from tdinfonce.cli import main

sys.exit(main())
