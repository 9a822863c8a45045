"""Draw the states between the representations of start and goal, of any offline run of TD InfoNCE.

python examples/interpolation.py RUN OUT
"""

import sys
from pathlib import Path

from tdinfonce.analysis import interpolation
from tdinfonce.estimate.represent import represent

if __name__ == "__main__":
    run, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    represent(run, out)
    interpolation.report(out, "States between the representations of start and goal")
    print((out / "table.md").read_text(encoding="utf-8"))
