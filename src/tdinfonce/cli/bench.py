"""``tdinfonce bench``: how fast it is on this machine, as figures."""

import json
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.errors import UserError
from tdinfonce.system.machine import visible_cores

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Measure speed and memory on this machine; run it when nothing else runs."""

    reproduce: bool = False
    """Also run whole experiments and hold them against their targets (about half an hour)."""
    seconds: float = 3.0
    """How long to measure each estimator."""
    json: bool = False
    """Print one JSON object instead of a table."""
    peer: str | None = None
    """Instead: race TD InfoNCE against this library on fetch-reach (sb3: Stable-Baselines3's DDPG+HER). The first time
    it is installed into a virtual environment of its own."""
    peer_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """One run of each side for each of these."""
    peer_steps: int = 50_000
    """Environment steps after which a side gives up."""
    peer_success: tuple[float, float] = (0.98, 0.95)
    """The success to reach over 100 episodes: at any step, and at the last step."""
    peer_every: int = 250
    """Environment steps between evaluations, of both sides."""
    peer_set: tuple[str, ...] = ()
    """Change how the peer learns: --peer-set tau=0.01 net_arch=[64,64] (the settings stand below the table)."""
    peer_folder: Path | None = None
    """Where the virtual environment, the runs and the report go; default: runs/peer-NAME."""

    def run(self) -> int:
        """Measure and print."""
        if self.peer is not None:
            return self._race(self.peer)
        from tdinfonce.bench.speed import measure

        figures = measure(self.seconds, reproduce=self.reproduce)
        if self.json:
            print(json.dumps({"cores": visible_cores(), "figures": figures}))
            return 0
        from rich.console import Console
        from rich.table import Table

        table = Table("what", "figure", "target", title=f"tdinfonce bench, {visible_cores()} cores")
        for figure in figures:
            table.add_row(figure["what"], f"{figure['value']:,.3g} {figure['unit']}", figure.get("target", ""))
        Console().print(table)
        return 0

    def _race(self, peer: str) -> int:
        from tdinfonce.bench.race import Race, compare, show

        if self.reproduce:
            raise UserError("--peer and --reproduce are two measurements; ask for one at a time")
        folder = self.peer_folder or Path("runs") / f"peer-{peer}"
        rules = (self.peer_steps, *self.peer_success, self.peer_every, self.peer_set)
        report = compare(Race(peer, folder, self.peer_seeds, *rules))
        if self.json:
            print(json.dumps(report))
        else:
            show(report)
        return 0
