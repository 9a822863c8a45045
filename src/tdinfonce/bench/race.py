"""A race against another library on one task: environment steps and seconds to the same success.

The two never run at the same time, each run is a fresh process, and both are evaluated at the same steps on the same
episodes. Evaluation is not counted; compiling is.
"""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdinfonce.bench import peers
from tdinfonce.bench.install import ENV, install, peer_settings
from tdinfonce.errors import UserError
from tdinfonce.system.machine import visible_cores
from tdinfonce.system.venv import complaint, note

__all__ = ["Race", "Reading", "compare", "first", "of_metrics", "of_peer", "show", "watch"]

ENV_ID = "FetchReach-v4"
EPISODES = 100
WARM_UP = 1_500
CLOCK = "seconds are of training: with compiling, without imports and evaluations; in brackets with imports"


class Race(NamedTuple):
    """What is asked of both sides."""

    peer: str
    """The name of the other library."""
    folder: Path
    """Gets the peer's virtual environment, the runs and the report."""
    seeds: tuple[int, ...]
    """One run of each side for each seed."""
    limit: int
    """Environment steps after which a run gives up."""
    success_any: float
    """The target: share of episodes in which the goal is reached at some step ..."""
    success_final: float
    """... and share of those in which it is reached at the last step."""
    every: int
    """Environment steps between evaluations."""
    changes: tuple[str, ...] = ()
    """Changes of the peer's settings, each ``name=value``."""


class Reading(NamedTuple):
    """One evaluation of a run."""

    env_steps: int
    seconds: float
    """Of training."""
    success_any: float
    success_final: float
    evaluating: float
    """Seconds spent on evaluations so far."""
    whole: float = math.nan
    """Seconds since the process was started, evaluations left out."""


def compare(race: Race) -> dict[str, Any]:
    """Run both sides for each seed, ours first; the report is also written to the race's folder."""
    from tdinfonce.runs.folder import versions

    _check(race)
    settings = peer_settings(race.peer, race.changes)
    python = install(race.peer, race.folder)
    rows: list[dict[str, Any]] = []
    for seed in race.seeds:
        ours = run_ours(race, seed)
        theirs, said = run_peer(race, seed, python, settings)
        rows.append({"seed": seed} | _row(ours, theirs))
    report = {
        "peer": race.peer,
        "env": ENV,
        "cores": visible_cores(),
        "target": {"success_any": race.success_any, "success_final": race.success_final, "episodes": EPISODES},
        "evaluated_every": race.every,
        "step_limit": race.limit,
        "clock": CLOCK,
        "peer_settings": said["settings"],
        "versions": {"ours": versions(), "peer": said["versions"]},
        "seeds": rows,
        "median": _median(rows),
    }
    (race.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def _check(race: Race) -> None:
    """Refuse what cannot be a race before anything is installed."""
    peers.load(race.peer)  # an unknown name should fail first
    if not race.seeds or min(race.seeds) < 0 or len(set(race.seeds)) != len(race.seeds):
        raise UserError("a race wants different seeds that are not negative, such as: 0 1 2")
    if race.limit < WARM_UP:
        raise UserError(f"a race needs at least {WARM_UP} steps, for both sides warm up first; got {race.limit}")
    if race.every < 1:
        raise UserError(f"the steps between evaluations must be at least 1; got {race.every}")
    if not all(0 < share <= 1 for share in (race.success_any, race.success_final)):
        raise UserError("the success to reach is two shares above 0 and at most 1, such as: 0.98 0.95")


def run_ours(race: Race, seed: int) -> Reading | None:
    """Train TD InfoNCE until the target; the evaluation that met it, if any did."""
    from tdinfonce.runs.folder import METRICS, check_folder

    out = race.folder / f"ours-seed-{seed}"
    check_folder(out, overwrite=True)  # never remove what is not a run
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-m", "tdinfonce", "train", "--env", ENV, "--seed", str(seed), "--out", str(out)]
    settings = [f"eval_every={race.every}", f"eval_episodes={EPISODES}", "final_episodes=1"]
    words += ["--env-steps", str(race.limit), "--set", *settings]
    log = race.folder / f"ours-seed-{seed}.log"
    return watch(f"ours, seed {seed}", words, race, of_metrics, rows=out / METRICS, log=log)


def run_peer(race: Race, seed: int, python: Path, settings: dict[str, Any]) -> tuple[Reading | None, dict[str, Any]]:
    """Train the peer until the target; the evaluation that met it, if any did, and what it ran with."""
    from tdinfonce.seeding import evaluation_seeds

    plan = {
        "env_id": ENV_ID,
        "seed": seed,
        "every": race.every,
        "limit": race.limit,
        "settings": settings,
        "threads": visible_cores(),
        "episode_seeds": evaluation_seeds(EPISODES),
        "success_any": race.success_any,
        "success_final": race.success_final,
    }
    words = [str(python), "-I", str(peers.load(race.peer).__file__), json.dumps(plan)]
    rows = race.folder / f"{race.peer}-seed-{seed}.jsonl"
    log = rows.with_suffix(".log")
    met = watch(f"{race.peer}, seed {seed}", words, race, of_peer, rows=rows, log=log, stdout=rows)
    return met, _read(rows)[0]


def watch(
    title: str,
    words: Sequence[str],
    race: Race,
    parse: Callable[[dict[str, Any]], Reading | None],
    *,
    rows: Path,
    log: Path,
    stdout: Path | None = None,
) -> Reading | None:
    """Run a program until one of the rows that it writes meets the target; None if it ends without.

    Args:
        title: how to call it in messages.
        words: the program and its arguments.
        race: has the target.
        parse: makes a reading of a row that is an evaluation.
        rows: the file of JSON lines that it writes.
        log: gets what it complains about.
        stdout: gets what it prints; None: nothing does.
    """
    with open(log, "w", encoding="utf-8") as errors, open(stdout or os.devnull, "w", encoding="utf-8") as out:
        start = time.monotonic()
        with subprocess.Popen(words, stdout=out, stderr=errors) as run:
            try:
                met = _await(title, run, start, race, lambda: [r for row in _read(rows) if (r := parse(row))])
            finally:
                if run.poll() is None:
                    run.terminate()
    if met is None and run.returncode:
        raise UserError(f"{title} failed with code {run.returncode}: {complaint(log.read_text(encoding='utf-8'))}")
    return met


def _await(
    title: str, run: subprocess.Popen, start: float, race: Race, read: Callable[[], list[Reading]]
) -> Reading | None:
    """Read again and again until a reading meets the target or the program has ended."""
    seen, met, ended = 0, None, False
    while met is None and not ended:
        time.sleep(0.1)
        ended = run.poll() is not None
        readings, now = read(), time.monotonic() - start
        fresh = [reading._replace(whole=now - reading.evaluating) for reading in readings[seen:]]
        for reading in fresh:
            note(f"{title}: {_line(reading)}")
        seen, met = len(readings), first(fresh, race)
    return met


def first(readings: Sequence[Reading], race: Race) -> Reading | None:
    """The first reading that meets the target."""
    good = (r for r in readings if r.success_any >= race.success_any and r.success_final >= race.success_final)
    return next(good, None)


def of_metrics(row: dict[str, Any]) -> Reading | None:
    """A row of our metrics as a reading; None if it is not an evaluation during training."""
    if "eval/success_any" not in row:
        return None
    evaluating = row["time/evaluate"]
    success = row["eval/success_any"], row["eval/success_final"]
    steps = row["env_steps" if "env_steps" in row else "env_step"]
    return Reading(steps, row["time/total"] - evaluating, *success, evaluating)


def of_peer(row: dict[str, Any]) -> Reading | None:
    """A row of a peer as a reading; None if it is not an evaluation."""
    if "env_steps" not in row:
        return None
    evaluating = row["evaluate_seconds"]
    success = row["success_any"], row["success_final"]
    return Reading(row["env_steps"], row["total_seconds"] - evaluating, *success, evaluating)


def show(report: dict[str, Any]) -> None:
    """Print a report as a table, with how the peer was set below it."""
    from rich.console import Console
    from rich.table import Table

    peer, target = report["peer"], report["target"]

    def side(reading: dict[str, Any] | None) -> tuple[str, str]:
        if reading is None:
            return "never", ""
        return f"{reading['env_steps']:,.0f}", f"{reading['seconds']:.0f} ({reading['whole']:.0f})"

    title = f"{report['env']}: to success {target['success_any']} at any step and {target['success_final']} at the last"
    title += f", {target['episodes']} episodes, {report['cores']} cores"
    heads = ("ours, steps", "seconds", f"{peer}, steps", "seconds", "steps ×", "seconds ×")
    table = Table("seed", *heads, title=title)
    for row in [*report["seeds"], {"seed": "median"} | report["median"]]:
        ratios = (f"{row[name]:.2f}" if row[name] else "" for name in ("steps_ratio", "seconds_ratio"))
        table.add_row(str(row["seed"]), *side(row["ours"]), *side(row["peer"]), *ratios)
    console = Console()
    console.print(table)
    settings = report["peer_settings"] | {"versions": report["versions"]["peer"]}
    print(f"How {peer} was set: {', '.join(f'{name} {value}' for name, value in settings.items())}")
    print(f"Both are evaluated every {report['evaluated_every']} steps; {report['clock']}.")
    print(f"× is {peer} over ours; never is not within {report['step_limit']:,} steps.")


def _row(ours: Reading | None, theirs: Reading | None) -> dict[str, Any]:
    """Both sides of a race and how many times more the peer needed; None where a side did not get there."""
    ratios: dict[str, float | None] = {"steps_ratio": None, "seconds_ratio": None}
    if ours and theirs:
        ratios = {"steps_ratio": theirs.env_steps / ours.env_steps, "seconds_ratio": theirs.seconds / ours.seconds}
    return {"ours": ours and ours._asdict(), "peer": theirs and theirs._asdict()} | ratios


def _median(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each side's median over seeds; a run that did not get there counts as infinitely long."""

    def middle(side: str) -> Reading | None:
        never = dict.fromkeys(Reading._fields, math.inf)
        reading = Reading._make(statistics.median((row[side] or never)[name] for row in rows) for name in never)
        return reading if math.isfinite(reading.env_steps) else None

    return _row(middle("ours"), middle("peer"))


def _read(path: Path) -> list[dict[str, Any]]:
    """The whole lines that a program has written so far."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _line(reading: Reading) -> str:
    return (
        f"{reading.env_steps:,} steps, {reading.seconds:.0f} s, "
        f"success any {reading.success_any:.2f}, final {reading.success_final:.2f}"
    )
