"""`tdinfonce data`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from tdinfonce.errors import UserError
from tdinfonce.system.signals import sigterm_as_ctrl_c

__all__ = ["Command"]


@dataclass(frozen=True)
class Make:
    """Record a data set in a maze, as a Minari data set. Stopped, it continues when called again."""

    name: Annotated[str, tyro.conf.Positional]
    """pointmaze-* or antmaze-* (see `tdinfonce list`); with --policy RUN any environment."""
    kind: str = "navigate"
    """navigate: long ways. stitch (pointmaze): episodes of a few cells, so that far goals need stitching."""
    transitions: int = 1_000_000
    """At least so many steps, in whole episodes."""
    seed: int = 0
    """Decides everything random; one seed, one file."""
    policy: Path | None = None
    """Who walks: a file of weights (.npz), or the folder of a run of ours."""
    out: str | None = None
    """Minari id (namespace/name-v0) or a folder; default: tdinfonce/NAME-v0, for pointmaze with the kind."""
    overwrite: bool = False
    """Replace another data set of ours in that place."""

    def run(self) -> int:
        """Record, then say where it is."""
        from tdinfonce.recording.generate import make_data

        default = f"{self.name}-{self.kind}" if self.name.startswith("pointmaze-") else self.name
        folder, dataset_id = _place(self.out or f"tdinfonce/{default}-v0")
        try:
            with sigterm_as_ctrl_c():
                record = make_data(
                    self.name,
                    folder,
                    dataset_id,
                    kind=self.kind,
                    transitions=self.transitions,
                    seed=self.seed,
                    policy=self.policy,
                    overwrite=self.overwrite,
                )
        except KeyboardInterrupt:
            print("what is recorded is kept; the same command continues")
            raise
        source = dataset_id if self.out is None or folder != Path(self.out).resolve() else folder
        print(
            f"{folder}: {record['episodes']:,} episodes of {record['length']:,} steps; tdinfonce data inspect {source}"
        )
        return 0


@dataclass(frozen=True)
class Inspect:
    """Check a data set, print what is in it, and draw where it has been."""

    source: Annotated[str, tyro.conf.Positional]
    """Minari id or folder, .hdf5 or .npz file, or the folder of a run, whose replay is read."""
    goal: str | None = None
    """Coordinates of an observation that make the goal, 0:2 or 0,1; needed where the data name no achieved goal."""
    out: Path | None = None
    """Folder for the picture; default: runs/inspect-NAME."""

    def run(self) -> int:
        """Read, check, print, draw."""
        from tdinfonce.analysis import datasets
        from tdinfonce.data import open_dataset, read_record

        record = read_record(self.source)
        episodes = open_dataset(self.source, goal=self.goal)
        print(datasets.report(self.source, episodes, record))
        out = self.out or Path("runs") / f"inspect-{Path(self.source).stem}"
        _check_out(out)
        datasets.draw(out, episodes, record)
        print(f"coverage: {out / 'coverage.png'}")
        return 0


@dataclass(frozen=True)
class List:
    """List the Minari data sets on this machine, and those that can be made."""

    def run(self) -> int:
        """Print."""
        from tdinfonce.data.formats.minari import minari_root
        from tdinfonce.recording.behaviour import known_sets

        root = minari_root()
        print(f"here ({root})")
        for file in sorted(root.rglob("data/metadata.json")):
            print(f"  {_line(file, file.parent.parent.relative_to(root).as_posix())}")
        print("\ncan be made (tdinfonce data make NAME)")
        for name in known_sets():
            print(f"  {name:<24} {'--kind navigate, --kind stitch' if name.startswith('point') else '--policy FILE'}")
        return 0


@dataclass(frozen=True)
class Command:
    """Make data sets, look into them, list them."""

    action: tyro.conf.OmitSubcommandPrefixes[
        Annotated[Make, tyro.conf.subcommand("make")]
        | Annotated[Inspect, tyro.conf.subcommand("inspect")]
        | Annotated[List, tyro.conf.subcommand("list")]
    ]

    def run(self) -> int:
        """Do it."""
        return self.action.run()


def _place(out: str) -> tuple[Path, str]:
    """Folder and id of a new data set: an id lies in Minari's own folder."""
    from tdinfonce.data.formats.minari import is_minari_id, minari_root

    if is_minari_id(out) and not Path(out).exists():
        return minari_root() / out, out
    folder = Path(out).expanduser().resolve()
    if folder.is_file():
        raise UserError(f"{folder} is a file; choose a folder or a Minari id with --out")
    name = folder.name if is_minari_id(folder.name) else f"{folder.name}-v0"
    return folder, f"tdinfonce/{name}"


def _check_out(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error


def _line(file: Path, name: str) -> str:
    from tdinfonce.data.formats.minari import read_metadata

    try:
        found: dict[str, Any] = read_metadata(file.parent)
    except UserError:
        return f"{name:<40} damaged"
    return f"{name:<40} {found['total_episodes']:>7,} episodes {found['total_steps']:>11,} steps"
