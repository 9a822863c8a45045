"""`tdinfonce doctor`."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Look at versions, devices, simulator, graphics and disk, train for some seconds, and say what to mend."""

    folder: Path = Path("runs")
    """Where runs would be written."""

    def run(self) -> int:
        """Print one line for each thing looked at; the exit code is 1 if something must be mended."""
        from tdinfonce.bench.doctor import examine

        good = True
        for name, ok, text in examine(self.folder):
            print(f"{name:<10} {text}", flush=True)
            good = good and ok
        return 0 if good else 1
