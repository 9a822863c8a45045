"""`tdinfonce data`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tdinfonce.system.signals import sigterm_as_ctrl_c

__all__ = ["Command"]


@dataclass(frozen=True)
class Make:
    """Record a data set, in a maze or of OGBench's, as a Minari data set. Stopped, it continues when called again."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """See `tdinfonce data list`; with --policy RUN any environment."""
    kind: str | None = None
    """On arrival: reach, navigate (to another goal) or stay; stitch: a few cells far. OGBench's names say it."""
    transitions: int = 1_000_000
    """At least so many steps, in whole episodes."""
    seed: int = 0
    """Decides everything random; one seed, one file."""
    policy: Path | None = None
    """Who walks: a file of weights (.npz), or the folder of a run of ours."""
    end_falls: bool = False
    """End an episode when the ant lies on its back."""
    out: str | None = None
    """Minari id (namespace/name-v0) or a folder; default: tdinfonce/NAME-KIND-v0, of antmaze's reach NAME-v0."""
    overwrite: bool = False
    """Replace another data set of ours in that place."""

    def run(self) -> int:
        """Record, then say where it is."""
        from tdinfonce.recording.generate import make_data

        try:
            with sigterm_as_ctrl_c():
                made = make_data(**vars(self))
        except KeyboardInterrupt:
            print("what is recorded is kept; the same command continues")
            raise
        print(f"{made.folder}: {made.episodes:,} episodes; tdinfonce data inspect {made.source}")
        return 0


@dataclass(frozen=True)
class Inspect:
    """Check a data set, print what is in it, and draw where it has been."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """Minari id or folder, .hdf5 or .npz file (OGBench's too), or the folder of a run, whose replay is read."""
    goal: str | None = None
    """Coordinates of an observation that make the goal, 0:2 or 0,1; needed where the data name no achieved goal."""
    action_bounds: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH")] = None
    """The smallest and the largest action, where the data do not say them and actions leave [-1, 1]."""
    out: Path | None = None
    """Folder for the picture; default: runs/inspect-NAME."""

    def run(self) -> int:
        """Read, check, print, draw."""
        from tdinfonce.recording.inspect import inspect

        print(*inspect(**vars(self)), sep="\ncoverage: ")
        return 0


@dataclass(frozen=True)
class List:
    """List the Minari data sets on this machine, and those that can be made."""

    def run(self) -> int:
        """Print."""
        from tdinfonce.data.catalogue import list_datasets
        from tdinfonce.recording.behaviour import known_sets

        folder, found = list_datasets()
        print(f"here ({folder})")
        for name, said in found.items():
            size = said and f"{said['total_episodes']:>7,} episodes {said['total_steps']:>11,} steps"
            print(f"  {name:<40} {size or 'malformed'}")
        print("\ncan be made (tdinfonce data make NAME; ants with --policy FILE)", *known_sets(), sep="\n  ")
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
