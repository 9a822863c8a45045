"""The promises of docs/safety.md, measured.

`python tests/safety.py` runs them all, prints the figures (hours) and ends with exit code 1 if one is broken;
`--part kills --share 0.1` is a tenth of one. The tests in test_safety.py run a few of each.
"""

import argparse
import contextlib
import errno
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from bad_inputs import bad_calls
from helpers import planned, run_online
from offline_data import random_walks, write
from run_state import _mark, replay_of, state_of
from tdinfonce.cli import main as command_line
from tdinfonce.data.replay import Replay
from tdinfonce.errors import UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs import segments as _segments
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.manifest import sealed
from tdinfonce.training import online
from tdinfonce.types import GoalEnv, Start, Step

Figures = dict[str, Any]
TINY = ["hidden=8", "env_steps=400", "warmup_steps=100", "eval_every=100", "eval_episodes=2", "final_episodes=2"]
TINY += ["batch_size=16", "updates_per_call=5", "replay_capacity=300"]
TRAIN = [sys.executable, "-m", "tdinfonce", "train"]


def start(out: Path, settings: list[str] = TINY, agent: str = "gcbc") -> tuple[Any, GoalEnv, RunFolder]:
    plan = planned("point", agent, "fast", 3, settings=settings)
    world = plan.make_env()
    return plan, world, RunFolder.create(out, plan.as_json(world.spec), overwrite=True)


def go(plan: Any, env: Any, folder: RunFolder, *, resume: bool = False) -> dict[str, Any]:
    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(env.spec, seed, scale)

    return run_online(folder, env, create, plan.agent_config.sampling, plan.training, plan.seed, resume=resume)


def reseal(path: Path, **changes: Any) -> None:
    """Change the manifest of a checkpoint as a stranger would who knows how it is sealed."""
    manifest = json.loads((path / checkpoint.MANIFEST).read_bytes()) | changes
    (path / checkpoint.MANIFEST).write_bytes(sealed(manifest))


# --- kill -9 ---------------------------------------------------------------------------------------------------------


def tasks(root: Path) -> dict[str, list[str]]:
    """Words of `tdinfonce train` for small runs of three kinds; four checkpoints each."""
    small = ["--agent", "gcbc", "--set", "hidden=8", "eval_episodes=2", "final_episodes=2", "batch_size=16"]
    steps = ["env_steps=4000", "warmup_steps=500", "eval_every=1000", "replay_capacity=2000"]
    updates = ["updates=8000", "eval_every=2000", "updates_per_call=20"]
    data = write(root / "walks.npz", random_walks())
    return {
        "point": ["--env", "point", *small, *steps],
        "fetch-reach": ["--env", "fetch-reach", *small, *steps],
        "offline": ["--dataset", str(data), "--goal", "0:2", "--env", "point", *small, *updates],
    }


def kills(root: Path, times: int, saving: int, kinds: tuple[str, ...] = ("point", "fetch-reach", "offline")) -> Figures:
    """Kill runs at random moments, ``saving`` of them while they save; each is resumed and compared."""
    rng, words = random.Random(0), tasks(root)
    straight, window = {}, {}
    for kind in kinds:
        began = time.monotonic()
        subprocess.run([*TRAIN, *words[kind], "--out", str(root / kind)], check=True, capture_output=True)
        straight[kind], window[kind] = state_of(root / kind), time.monotonic() - began
    killed, caught, equal, spoiled, lost, wrong = 0, 0, 0, 0, [], []
    for index in range(times):
        kind, out = kinds[index % len(kinds)], root / f"killed-{index}"
        for wait in (0.02, 0.01, 0.005, 0.0, 0.0):  # a save is short: it can be missed; a run can end before
            shutil.rmtree(out, ignore_errors=True)
            run = [*TRAIN, *words[kind], "--out", str(out)]
            dead, hit = _kill_one(run, out, rng, window[kind], wait if index < saving else None)
            if dead and (hit or index >= saving):
                break
            if not dead:  # it was faster than the one that was timed
                window[kind] *= 0.7
        killed += dead
        caught += dead and hit
        rows = 0
        with contextlib.suppress(UserError):  # there may be none yet; one that is damaged is named below
            rows = checkpoint.load(out).counters["rows"]
        lost.append(RunFolder(out).rows() - rows)
        done = subprocess.run([*TRAIN, "--resume", str(out)], capture_output=True, text=True, check=False)
        same = done.returncode == 0 and state_of(out) == straight[kind]
        bad = bool(re.search("warning:|damaged", done.stderr)) or any(out.rglob("*.damaged"))
        equal += same
        spoiled += bad
        wrong += [f"{kind} {index}: {done.stderr[-200:]}"] if bad or not same else []
        shutil.rmtree(out)
    figures = {"tried": times, "killed": killed, "identical": equal, "while saving": caught, "asked": saving}
    return figures | {"damaged": spoiled, "rows to redo, most": max(lost), "wrong": wrong}


def _kill_one(words: list[str], out: Path, rng: random.Random, window: float, wait: float | None) -> tuple[bool, bool]:
    """Start a run and kill it at a random moment, or up to ``wait`` seconds after a save began; whether that ended it,
    and whether it left a checkpoint half written."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **quiet) as run:
        while not (out / "config.json").exists() and run.poll() is None:
            time.sleep(0.005)
        until = time.monotonic() + rng.random() * window * 0.8
        skip = rng.randrange(4)  # which of the saves to hit
        seen = False
        while run.poll() is None and (wait is not None or time.monotonic() < until):
            partial = _half_written(out)
            skip -= partial and not seen
            seen = partial
            if wait is not None and partial and skip < 0:
                time.sleep(wait * rng.random())
                break
            time.sleep(0.01 if wait is None else 0.0005)
        run.send_signal(signal.SIGKILL)
    return run.returncode == -signal.SIGKILL, _half_written(out)


def _half_written(run: Path) -> bool:
    """Whether a checkpoint has been begun. One that is being removed bears such a name too, but is not the newest."""
    names = _names(run / "checkpoints")
    for kind in (r"\d{12}", r"best-\d{12}"):
        newest = max((name for name in names if re.fullmatch(kind, name)), default="")
        begun = [name.removesuffix(".partial") for name in names if re.fullmatch(rf"{kind}\.partial", name)]
        if any(name >= newest for name in begun):
            return True
    return False


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


# --- damage ----------------------------------------------------------------------------------------------------------


def damage(root: Path, flips: int, cuts: int, deletions: int) -> Figures:
    """Damage one file that the newest checkpoint needs, then load: the file must be named, and nothing bad loaded."""
    plan, env, folder = start(root / "base")
    go(plan, env, folder)
    steps = [path.name for path in checkpoint.list_checkpoints(folder.path)]
    good = {name: _stored(folder.path / "checkpoints" / name) for name in steps[-2:]}
    rng, named, previous, mended = random.Random(1), 0, 0, 0
    ways = [_flip] * flips + [_cut] * cuts + [lambda path, rng: path.unlink()] * deletions
    for way in ways:
        copy = root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder.path, copy)
        newest = copy / "checkpoints" / steps[-1]
        names = [s.name for s in checkpoint._needed(newest) or []]
        needed = [newest.parent / place / name for name in names for place in _segments.PLACES]
        victim = rng.choice(sorted([*newest.iterdir(), *needed]))
        whole = victim.read_bytes()
        way(victim, rng)
        replay = Replay(env.spec, plan.training.replay_capacity)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded = checkpoint.load(copy, "agent", "progress", replay=replay)
        said = [str(warning.message) for warning in caught]
        named += any(str(victim.parent) in text and victim.name in text for text in said)
        # An episode has a second copy, all else has the checkpoint before.
        wanted = steps[-2] if victim.parent == newest else steps[-1]
        right = loaded.path.name == wanted and _returned(loaded, replay) == good[wanted]
        previous += right and wanted == steps[-2]
        mended += right and wanted == steps[-1] and victim.read_bytes() == whole
    return {"tried": len(ways), "named": named, "previous used": previous, "mended from the copy": mended}


def _stored(path: Path) -> Any:
    """What the files of a checkpoint hold, read without the code that is under test where that is possible."""
    manifest = json.loads((path / "manifest.json").read_text())
    parts = {name: load_file(path / f"{name}.safetensors") for name in ("agent", "progress")}
    return manifest["counters"], manifest["replay"]["added"], _marks(parts), replay_of(path)


def _returned(loaded: checkpoint.Loaded, replay: Replay) -> Any:
    """The same of what was loaded."""
    episodes = replay.take(replay.added - len(replay), replay.added)
    return loaded.counters, replay.added, _marks(loaded.parts), _marks({"replay": episodes})["replay"]


def _marks(parts: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, str]]:
    return {part: {name: _mark(array) for name, array in arrays.items()} for part, arrays in parts.items()}


def _flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


# --- faults ----------------------------------------------------------------------------------------------------------


class Spoiled:
    """An environment that shows NaN once, at a step counted over all episodes."""

    def __init__(self, env: GoalEnv, at: int) -> None:
        self._env, self._left, self.spec = env, at, env.spec
        self.close = env.close

    def reset(self, seed: int) -> Start:
        return self._env.reset(seed)

    def step(self, action: np.ndarray) -> Step:
        self._left -= 1
        said = self._env.step(action)
        return said._replace(observation=said.observation * np.nan) if self._left == 0 else said


@contextlib.contextmanager
def replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def nan(root: Path, times: int) -> Figures:
    """Spoil a state, a metric or an array of the agent at random steps behind the first checkpoint."""
    rng, stopped, finite, files, said = random.Random(2), 0, 0, 0, []
    for index in range(times):
        plan, env, folder = start(root / f"nan-{index}", [*TINY, "eval_every=20"])  # saves after each episode
        fields: list[str] = []
        patch: Any = contextlib.nullcontext()
        match index % 4:
            case 0:
                env, fields = Spoiled(env, rng.randrange(210, 450)), ["observation"]
            case 1:
                patch = _spoil_array(rng.randrange(2, 17), rng, fields, best=False)
            case 2:
                patch = _spoil_metric(rng.randrange(10, 50), rng, fields)
            case 3:
                patch = _spoil_array(rng.randrange(2, 17), rng, fields, best=True)
        with patch:
            try:
                go(plan, env, folder)
            except UserError as error:
                stopped += any(field in str(error) for field in fields) and "step" in str(error)
                said.append(str(error))
        saved = sorted((folder.path / "checkpoints").rglob("*.safetensors"))
        files += len(saved)
        whole = all(checkpoint.load(folder.path, "agent", best=best) for best in (False, True))
        finite += whole and all(np.isfinite(array).all() for path in saved for array in load_file(path).values())
    figures = {"tried": times, "stopped and named": stopped, "all checkpoints finite": finite, "files": files}
    return figures | {"said": said[:4]}


def _spoil_metric(at: int, rng: random.Random, names: list[str]) -> Any:
    """One metric of the ``at``-th call of updates is NaN; its name goes to ``names``."""

    def update(agent: Any, batches: Any, original: Any = online.update_many) -> Any:
        nonlocal at
        agent, metrics = original(agent, batches)
        at -= 1
        if at == 0:
            names.append(rng.choice(sorted(metrics)))
            metrics |= {names[0]: metrics[names[0]] * np.nan}
        return agent, metrics

    return replaced(online, "update_many", update)


def _spoil_array(at: int, rng: random.Random, names: list[str], *, best: bool) -> Any:
    """One number of the actor or its optimiser is NaN after the ``at``-th updates, just before the evaluation and the
    save: neither a metric nor an action of the evaluation shows it. With ``best`` this agent is to become the best one.
    """
    original = online.OnlineSession._update

    def update(self: Any, before: int) -> None:
        nonlocal at
        original(self, before)
        at -= 1
        if at == 0:
            arrays = checkpoint.agent_arrays(self.agent)
            numbers = sorted(name for name, array in arrays.items() if array.dtype.kind == "f")
            names.append(rng.choice([name for name in numbers if name.startswith((".actor.model", ".actor.state"))]))
            spoiled = arrays[names[0]].copy()
            spoiled.flat[rng.randrange(spoiled.size)] = np.nan
            self.agent = checkpoint.restore_agent(self.agent, arrays | {names[0]: spoiled})
            self.best = (-1.0, -1.0) if best else (2.0, 2.0)

    return replaced(online.OnlineSession, "_update", update)


def full_disk(root: Path, times: int, *, real: bool = True) -> Figures:
    """Fill the disk, or make it read-only, at a random episode; then make room and resume.

    Where nothing can be mounted, errors are pretended; that is not enough if it is to be ``real``.
    """
    rng, said, resumed = random.Random(3), 0, 0
    plan, env, folder = start(root / "straight")
    go(plan, env, folder)
    place = root / "small"
    straight, mounted = state_of(folder.path), _mount(place)
    found = {"really full": 0, "really read-only": 0, "not real": 0}
    for index in range(times):
        out = place / f"run-{index}"
        plan, env, folder = start(out)
        if mounted:
            spoil, mend = _full(place) if index % 2 == 0 else _read_only(place)
        else:
            spoil, mend = _pretended(errno.ENOSPC if index % 2 == 0 else errno.EROFS)
        left, original = [rng.randrange(8, 19)], online.OnlineSession.iterate

        def iterate(self: Any, left: Any = left, original: Any = original, spoil: Any = spoil) -> int:
            left[0] -= 1
            if left[0] == 0:
                spoil()
                found[_disk(place) if mounted else "not real"] += 1
            return original(self)

        with replaced(online.OnlineSession, "iterate", iterate), contextlib.ExitStack() as stack:
            stack.callback(mend)
            try:
                go(plan, env, folder)
            except UserError as error:
                said += "cannot write" in str(error) and "is kept" in str(error)
        go(plan, env, folder, resume=True)
        resumed += state_of(out) == straight
        shutil.rmtree(out)
    if mounted:
        subprocess.run(["umount", str(place)], check=True)
    figures = {"tried": times, "said in one line": said, "resumed identical": resumed}
    return figures | found | {"asked to be real": times if real else 0}


def _mount(place: Path) -> bool:
    """A disk of 4 MiB, if we may; otherwise only a folder, and its limits are pretended."""
    place.mkdir()
    if os.geteuid() != 0:
        return False
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False
    )
    return done.returncode == 0


def _disk(place: Path) -> str:
    """What the system says of a disk that was spoiled."""
    found = os.statvfs(place)
    if found.f_flag & os.ST_RDONLY:
        return "really read-only"
    return "really full" if found.f_bavail == 0 else "not real"


def _pretended(number: int) -> tuple[Callable[[], None], Callable[[], None]]:
    stack = contextlib.ExitStack()

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return lambda: stack.enter_context(replaced(checkpoint, "fill", refuse)), stack.close


def _full(place: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    ballast = place / "ballast"

    def spoil() -> None:
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while file.write(b"x" * 512):
                pass

    return spoil, lambda: ballast.unlink(missing_ok=True)


def _read_only(place: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Another mount over the same place: unlike the first it can be made read-only while files are open."""

    def spoil() -> None:
        subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)

    def mend() -> None:
        subprocess.run(["umount", str(place)], check=True)

    return spoil, mend


def worker(root: Path, steps: int, every: int) -> Figures:
    """Kill the process of the environment every so many steps."""
    settings = [*TINY, f"env_steps={steps}", "eval_every=5000", "env_worker=true", "updates_per_env_step=0.1"]
    plan, env, folder = start(root / "worker", settings)
    taken, killed, slowest = 0, 0, 0.0

    def timed(call: Any) -> Any:
        def answer(said: Any) -> Any:
            nonlocal slowest
            began = time.monotonic()
            try:
                return call(said)
            finally:
                slowest = max(slowest, time.monotonic() - began)

        return answer

    def counted(action: np.ndarray, step: Any = env.step) -> Step:
        nonlocal taken, killed
        taken += 1
        if taken % every == 0:
            os.kill(env.process_id, signal.SIGKILL)  # type: ignore[attr-defined]
            killed += 1
        said: Step = step(action)
        return said

    env.step, env.reset = timed(counted), timed(env.reset)  # type: ignore[method-assign]
    result = go(plan, env, folder)
    env.close()
    figures = {"steps": result["env_steps"], "asked": steps, "killed": killed, "longest wait, s": round(slowest, 2)}
    return figures | {"episodes dropped": result.get("dropped_episodes", 0)}


def hang(root: Path) -> Figures:
    """Stop the process of the environment: it must be noticed and replaced."""
    plan, env, folder = start(root / "hang", [*TINY, "env_worker=true"])
    env._seconds = 1.0  # type: ignore[attr-defined]
    step, left = env.step, [150]

    def stuck(action: np.ndarray) -> Step:
        left[0] -= 1
        if left[0] == 0:
            os.kill(env.process_id, signal.SIGSTOP)  # type: ignore[attr-defined]
        return step(action)

    env.step = stuck  # type: ignore[method-assign]
    result = go(plan, env, folder)
    env.close()
    return {"steps": result["env_steps"], "episodes dropped": result.get("dropped_episodes", 0)}


# --- strangers -------------------------------------------------------------------------------------------------------


def bad_input(root: Path, count: int) -> Figures:
    """Wrong calls of the command line: exit code 2, one line, nothing left behind."""
    wrong, slowest = [], 0.0
    calls = bad_calls(root, count)
    for call in calls:
        said, began = io.StringIO(), time.monotonic()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                with replaced(online.OnlineSession, "run", None):  # nothing gets as far as that
                    code = command_line(call)
            except BaseException as error:
                code = repr(error)
        slowest = max(slowest, time.monotonic() - began)
        if code != 2 or len(said.getvalue().strip().splitlines()) != 1 or list(root.iterdir()):
            wrong.append([call, code, said.getvalue()])
        for left in root.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return {"tried": len(calls), "one line": len(calls) - len(wrong), "slowest, s": round(slowest, 2), "wrong": wrong}


def hostile(root: Path) -> Figures:
    """Files that were made to do harm, as checkpoints and as data sets; they are tests of their own."""
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=line", "tests/test_safety.py"]
    words += ["tests/test_broken_datasets.py", "-k", "hostile or broken or another_type or sizes_are_checked"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {"exit code": done.returncode, "said": done.stdout.strip().splitlines()[-1:]}


# --- time and memory -------------------------------------------------------------------------------------------------


def soak(root: Path, minutes: float) -> Figures:
    """Run `point` at full speed; memory, open files and speed over the time behind the first quarter."""
    settings = ["env_steps=1000000000", "warmup_steps=500", "eval_every=20000", "eval_episodes=5", "hidden=64,64"]
    out = root / "soak"
    words = [
        *TRAIN,
        "--env",
        "point",
        "--out",
        str(out),
        "--set",
        *settings,
        "replay_capacity=20000",
    ]
    seen = []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until and run.poll() is None:
            time.sleep(60 * minutes / 60)
            pages = int(Path(f"/proc/{run.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            seen.append((pages, len(os.listdir(f"/proc/{run.pid}/fd"))))
        run.send_signal(signal.SIGTERM)
        code = run.wait()
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    busy = np.diff([row["time/collect"] + row["time/update"] for row in rows])
    late = seen[len(seen) // 4 :]
    half = len(busy) // 2
    drift = float(np.median(busy[half:]) / np.median(busy[:half]) - 1) if half else float("nan")
    growth = (max(p for p, _ in late[-5:]) / max(p for p, _ in late[:5]) - 1) if late else float("nan")
    figures = {"minutes": minutes, "steps": rows[-1]["env_steps"], "exit code": code}
    figures |= {"memory growth": round(growth, 4), "open files": sorted({files for _, files in late})}
    return figures | {"slower in the second half": round(drift, 4)}


def overhead(root: Path, steps: int, env: str = "fetch-reach") -> Figures:
    """The share of wall time that saving and checking take, at the preset `fast`."""
    from tdinfonce.training import collect

    plan = planned(env, "td-infonce", "fast", 0, settings=[f"env_steps={steps}", "final_episodes=1"])
    world = plan.make_env()
    folder = RunFolder.create(root / "overhead", plan.as_json(world.spec))
    spent: dict[str, list[float]] = {}

    def timed(place: Any, name: str) -> Any:
        original, seconds = getattr(place, name), spent.setdefault(name, [])

        def call(*arguments: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return original(*arguments, **named)
            finally:
                seconds.append(time.monotonic() - began)

        return replaced(place, name, call)

    with contextlib.ExitStack() as stack:
        for place, name in ((online.OnlineSession, "save"), (checkpoint, "save_best"), (online, "check_metrics")):
            stack.enter_context(timed(place, name))
        stack.enter_context(timed(collect, "_check_finite"))
        began = time.monotonic()
        go(plan, world, folder)
        wall = time.monotonic() - began
    total = sum(sum(seconds) for seconds in spent.values())
    calls = {name: f"{len(s)} calls, {1000 * sum(s):.1f} ms" for name, s in spent.items()}
    return {"wall, s": round(wall, 1), "share": round(total / wall, 4)} | calls


PARTS: dict[str, Callable[[Path, float], Figures]] = {
    "damage": lambda root, share: damage(root, _of(200, share), _of(50, share), _of(20, share)),
    "nan": lambda root, share: nan(root, _of(20, share)),
    "disk": lambda root, share: full_disk(root, _of(20, share)),
    "worker": lambda root, share: worker(root, _of(50_000, share), 1000),
    "hang": lambda root, share: hang(root),
    "bad input": lambda root, share: bad_input(root, _of(500, share)),
    "hostile files": lambda root, share: hostile(root),
    "kills": lambda root, share: kills(root, _of(50, share), _of(20, share)),
    "overhead": lambda root, share: overhead(root, _of(50_000, share)),
    "soak": lambda root, share: soak(root, 60 * share),
}
KEPT: dict[str, Callable[[Figures], bool]] = {
    "damage": lambda f: f["named"] == f["previous used"] + f["mended from the copy"] == f["tried"],
    "nan": lambda f: f["stopped and named"] == f["all checkpoints finite"] == f["tried"],
    "disk": lambda f: (
        f["said in one line"] == f["resumed identical"] == f["tried"]
        and f["really full"] + f["really read-only"] >= f["asked to be real"]
    ),
    "worker": lambda f: (
        f["steps"] >= f["asked"] and 1 <= f["episodes dropped"] <= f["killed"] and f["longest wait, s"] < 10
    ),
    "hang": lambda f: f["episodes dropped"] == 1,
    "bad input": lambda f: f["one line"] == f["tried"] and f["slowest, s"] < 5,
    "hostile files": lambda f: f["exit code"] == 0,
    "kills": lambda f: (
        f["identical"] == f["killed"] == f["tried"]
        and f["while saving"] >= f["asked"]
        and f["damaged"] == 0
        and f["rows to redo, most"] <= 1
    ),
    "overhead": lambda f: f["share"] <= 0.03,
    "soak": lambda f: (
        f["exit code"] == 75
        and f["memory growth"] < 0.01
        and len(f["open files"]) == 1
        and f["slower in the second half"] < 0.05
    ),
}
"""What is promised of the figures of each part."""


def _of(count: int, share: float) -> int:
    return max(1, round(count * share))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts")
    asked = parser.parse_args()
    broken = []
    for name in asked.part or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            figures = PARTS[name](Path(folder), asked.share)
        kept = KEPT[name](figures)
        broken += [] if kept else [name]
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{'kept' if kept else 'BROKEN'}: {name}: {json.dumps(figures)} ({took})", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
