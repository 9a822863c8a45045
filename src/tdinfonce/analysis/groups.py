"""Which runs are seeds of one thing: those whose settings are equal, and no others."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import label, place
from tdinfonce.analysis.training import UNITS, evaluations, losses, noise_of, where_of
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_object

__all__ = ["LOSSES", "NEUTRAL", "Group", "Task", "TrainedRun", "find_runs", "read_tasks", "settings_of"]

NEUTRAL = {"seed", "preset", "threads", "out", "dataset", "spec.name"}
NEUTRAL |= {"training.keep_checkpoints", "training.env_worker", "training.replay_on_disk"}
"""What may differ between runs of one group: the seed; what changes nothing that is learned but rounding; and names,
since `preset` stands for settings that are all there, and data are known by their checksum, not by where they lie."""
UNSET: dict[str, Any] = {"noise": 0.0, "goal": None, "test_goal": [], "data": None, "training.warmup_hold": 1}
UNSET |= {"action_low": [], "action_high": [], "actions": 0, "env_path": ""}
UNSET |= {"spec.image": None, "spec.discrete": False}
UNSET |= {"agent_config.random_negatives": False}
UNSET |= {"spec.action_low": [], "spec.action_high": [], "spec.action_shape": []}
"""What runs did whose version did not know a setting yet, or not any more."""
LOSSES = {"critic_loss": "critic/loss", "actor_loss": "actor/loss"}
SHOWN = 3
"""Settings that a label names."""
EVALUATIONS = 20
"""About how many evaluations a run has whose ``eval_every`` is 0."""


@dataclass(frozen=True)
class TrainedRun:
    """One run folder, read."""

    folder: Path
    """Where."""
    config: dict[str, Any]
    """Its config.json."""
    curve: list[dict[str, Any]]
    """Its evaluations during training, or its losses if it has no environment; each with its ``step``."""
    final: dict[str, Any] | None
    """Its summary, with the last losses if it has no environment; None: it is not finished."""

    @classmethod
    def read(cls, folder: Path, config: dict[str, Any]) -> "TrainedRun":
        """Read a run folder whose config is read already."""
        evaluated = bool(config.get("env"))
        if evaluated:
            curve = [row for row in evaluations(folder) if not row["final"]]
        else:
            curve = [{"step": row["step"]} | _losses(row) for row in losses(folder)]
        final = read_object(folder / "summary.json") if (folder / "summary.json").is_file() else None
        if final is not None:
            final = final | ({} if evaluated or not curve else curve[-1])
        return cls(folder, config, curve, final)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["seed"])


def _losses(row: dict[str, Any]) -> dict[str, float]:
    """The losses in a row: on held-out data if there are some, else on those that are trained on."""
    named = {name: row.get(f"heldout/{name}", row.get(key)) for name, key in LOSSES.items()}
    return {name: value for name, value in named.items() if value is not None}


@dataclass
class Group:
    """Runs that differ in their seed alone."""

    method: str
    """The variant that the folders name, or else the agent: what the group takes its colour from."""
    settings: dict[str, Any]
    """What all its runs have in common."""
    runs: list[TrainedRun] = field(default_factory=list)
    """One for each seed."""
    label: str = ""
    """How it is called beside the others."""

    @property
    def finals(self) -> list[dict[str, Any]]:
        """The summary of each finished run, with its seed."""
        return [run.final | {"seed": run.seed} for run in self.finished if run.final is not None]

    @property
    def finished(self) -> list[TrainedRun]:
        """The runs that reached their end, by their seeds."""
        return sorted((run for run in self.runs if run.final is not None), key=lambda run: run.seed)

    @property
    def unfinished(self) -> list[TrainedRun]:
        """The others."""
        return sorted((run for run in self.runs if run.final is None), key=lambda run: run.seed)

    def values(self, metric: str) -> list[float]:
        """A metric of the final evaluation, of every finished run that has it."""
        return [final[metric] for final in self.finals if metric in final]

    def mean_curve(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps, and the values of the finished runs there: a row for each run.

        Episodes may end anywhere, so evaluations of different seeds are matched by the multiple of ``eval_every`` that
        they follow; those that not every run has are left out.
        """
        every = self._eval_every()
        curves = [{row["step"] // every: row for row in run.curve if metric in row} for run in self.finished]
        curves = [curve for curve in curves if curve]
        shared = sorted(set.intersection(*map(set, curves))) if curves else []
        values = np.array([[curve[point][metric] for point in shared] for curve in curves], float)
        steps = np.array([[curve[point]["step"] for point in shared] for curve in curves], float)
        return (steps.mean(axis=0), values) if shared else (np.zeros(0), np.zeros((0, 0)))

    def _eval_every(self) -> int:
        """Environment steps between evaluations; 1 offline, where seeds count the same updates."""
        if self.settings["kind"] == "offline":
            return 1
        stated, steps = (self.settings.get(f"training.{name}", 0) for name in ("eval_every", "env_steps"))
        return int(stated or max(1, steps // EVALUATIONS))


@dataclass
class Task:
    """Groups that may stand in one panel: one place, one axis."""

    name: str
    """Where the runs were evaluated, or the data they learned from."""
    unit: str
    """What their curves count."""
    evaluated: bool
    """Whether there is an environment; without one there are losses."""
    groups: list[Group]
    """In the order of legends and tables."""

    def group(self, method: str) -> Group | None:
        """The first group of a method."""
        return next((group for group in self.groups if group.method == method), None)


def find_runs(root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every training run in a folder, however deep, with its config; links are not followed, nor runs entered."""
    for here, folders, files in os.walk(root):
        config = read_object(Path(here) / "config.json") if "config.json" in files else {}
        if config.get("kind") in UNITS:
            folders.clear()
            yield Path(here), config
        folders.sort()


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Everything in a config that decides what a run is, by dotted names: two runs with equal ones are seeds."""
    found: dict[str, Any] = UNSET | {"kind": config["kind"]}
    for name, value in config.items():
        inner = isinstance(value, dict) and name != "data"
        found |= {f"{name}.{key}": v for key, v in value.items()} if inner else {name: value}
    if not found["noise"]:
        found.pop("noise_kind", None)
    if found["data"] is None:
        found["data"] = config.get("dataset") or None
    return {name: value for name, value in found.items() if name not in NEUTRAL}


def read_tasks(root: Path, order: tuple[str, ...] = ()) -> list[Task]:
    """Read and group every run in a folder.

    A folder named TASK--VARIANT--SEED says itself what it is; of any other the config tells. Raises UserError if runs
    that differ in their settings have one name, and if a group has one seed twice.

    Args:
        root: where the runs are.
        order: variants that are no known methods, in order.
    """
    panels: dict[tuple[str, str, bool], list[tuple[str, Path, dict[str, Any]]]] = {}
    for folder, config in find_runs(root):
        named = folder.name.split("--") if folder.name.count("--") == 2 else None
        task, variant = (named[0], named[1]) if named else (where_of(config) + noise_of(config), "")
        panels.setdefault((task, config["kind"], bool(config.get("env"))), []).append((variant, folder, config))
    if not panels:
        raise UserError(f"{root} holds no training runs yet")
    names = [task for task, _, _ in panels]
    tasks = []
    for (name, kind, evaluated), found in panels.items():
        title = name if names.count(name) == 1 else f"{name}, {kind}{'' if evaluated else ', not evaluated'}"
        groups = _grouped(found)
        _name(groups)
        groups.sort(key=lambda group: _rank(group, order))
        tasks.append(Task(title, UNITS[kind], evaluated, groups))
    return tasks


def _grouped(found: list[tuple[str, Path, dict[str, Any]]]) -> list[Group]:
    """Runs by their settings; a name that folders give is kept, and may stand for one set of settings only."""
    groups: list[Group] = []
    for variant, folder, config in sorted(found, key=lambda entry: not entry[0]):
        settings = settings_of(config)
        if variant:
            group = next((g for g in groups if g.label and g.method == variant), None)
            if group is not None and (differing := _differing([group.settings, settings])):
                one, other = (_value(each, differing[0]) for each in (group.settings, settings))
                raise UserError(
                    f"{group.runs[0].folder} and {folder} are both called {variant}, but {_short(differing[0])} is "
                    f"{one} in one and {other} in the other; rename one of them"
                )
        else:
            group = next((g for g in groups if not _differing([g.settings, settings])), None)
        if group is None:
            group = Group(variant or config["agent"], settings, label=label(variant) if variant else "")
            groups.append(group)
        twice = next((run for run in group.runs if run.config["seed"] == config["seed"]), None)
        if twice is not None:
            raise UserError(
                f"{twice.folder} and {folder} are one run twice: the same settings and seed {config['seed']}; "
                "move one of them away"
            )
        group.runs.append(TrainedRun.read(folder, config))
    return groups


def _name(groups: list[Group]) -> None:
    """Call each group by its agent and, where that is not enough, by the settings that differ."""
    nameless = [group for group in groups if not group.label]
    for most in (SHOWN, None):  # all of them only if some are not enough
        for group in nameless:
            alike = [other for other in groups if other.settings["agent"] == group.settings["agent"]]
            group.label = ", ".join([label(group.method), *_distinctions(group, alike, most)])
        called = [group.label for group in groups]
        nameless = [group for group in nameless if called.count(group.label) > 1]


def _distinctions(group: Group, alike: list[Group], most: int | None) -> list[str]:
    """What tells a group from others of its agent: the settings that differ, or the preset if that says it all."""
    names = _differing([other.settings for other in alike])
    presets = {other.runs[0].config.get("preset") for other in alike}
    if most is not None and len(names) > most and len(presets) == len(alike):
        return [f"preset={group.runs[0].config.get('preset')}"]
    shown = [_describe(name, group, alike) for name in names]
    if most is None or len(shown) <= most:
        return shown
    return [*shown[:most], f"and {len(shown) - most} more"]


def _differing(settings: list[dict[str, Any]]) -> list[str]:
    """The names of settings that are not the same in all; what the environment's spec says only if nothing else is."""
    names = sorted({name for each in settings for name in each})
    found = [name for name in names if len({_frozen(each, name) for each in settings}) > 1]
    return [name for name in found if not name.startswith("spec.")] or found


def _frozen(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name], sort_keys=True) if name in settings else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _value(settings: dict[str, Any], name: str) -> str:
    """A setting as a user would write it."""
    if name not in settings:
        return "not set"
    value = settings[name]
    if isinstance(value, dict):
        return ", ".join(f"{key} {value[key]}" for key in sorted(value))
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _describe(name: str, group: Group, alike: list[Group]) -> str:
    """One setting of a group's label; data by their name if that tells them apart."""
    if name == "data":
        sources = [str(other.runs[0].config.get("dataset")) for other in alike]
        if len({Path(source).name for source in sources}) == len({_frozen(other.settings, name) for other in alike}):
            return f"data={Path(str(group.runs[0].config.get('dataset'))).name}"
        return f"data with {_value(group.settings, name)}"
    return f"{_short(name)}={_value(group.settings, name)}"


def _rank(group: Group, order: tuple[str, ...]) -> tuple[Any, ...]:
    """Where a group stands: methods in our order, other variants in the given one, numbers by their size."""
    known, name = place(group.method)
    given = order.index(group.method) if group.method in order else len(order)
    words = [part.partition("=") for part in group.label.split(", ")]
    values = [(key, _number(value), value) for key, _, value in words]
    return known, given, name, values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")
