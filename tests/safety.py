"""The promises of docs/safety.md, measured.

`python tests/safety.py` runs them all, prints the figures (hours) and ends with exit code 1 if one is broken;
`--part kills --share 0.1` is a tenth of one. The tests in test_safety.py run a few of each.
"""

import argparse
import contextlib
import io
import json
import os
import random
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

from bad_inputs import bad_calls
from offline_data import random_walks, write
from run_state import replay_of, state_of
from tdinfonce.cli import main as command_line
from tdinfonce.data import _segments
from tdinfonce.data.replay import Replay
from tdinfonce.errors import UserError
from tdinfonce.training import checkpoint, online, recipe
from tdinfonce.training.run_folder import RunFolder
from tdinfonce.types import GoalEnv, Start, Step

Figures = dict[str, Any]
TINY = ["hidden=8", "env_steps=400", "warmup_steps=100", "eval_every=100", "eval_episodes=2", "final_episodes=2"]
TINY += ["batch_size=16", "updates_per_call=5", "replay_capacity=300"]
TRAIN = [sys.executable, "-m", "tdinfonce", "train"]


def start(out: Path, settings: list[str] = TINY, agent: str = "gcbc") -> tuple[Any, GoalEnv, RunFolder]:
    plan = recipe.build("point", agent, "fast", 3, goal_space=None, settings=settings)
    world = plan.make_env()
    return plan, world, RunFolder.create(out, plan.as_json(world.spec), overwrite=True)


def go(plan: Any, env: Any, folder: RunFolder, *, resume: bool = False) -> dict[str, Any]:
    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(env.spec, seed, scale)

    return online.run_online(folder, env, create, plan.agent_config.sampling, plan.training, plan.seed, resume=resume)


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
    equal, lost, caught, wrong = 0, [], 0, []
    for index in range(times):
        kind, out = kinds[index % len(kinds)], root / f"killed-{index}"
        for _ in range(5):  # a save is short: it can be missed
            shutil.rmtree(out, ignore_errors=True)
            hit = _kill_one([*TRAIN, *words[kind], "--out", str(out)], out, rng, window[kind], saving=index < saving)
            if hit or index >= saving:
                break
        caught += hit
        rows = [checkpoint.read(path)[0]["rows"] for path in checkpoint.found(out)[-1:]]
        lost.append(RunFolder(out).rows() - (rows[0] if rows else 0))
        done = subprocess.run([*TRAIN, "--resume", str(out)], capture_output=True, text=True, check=False)
        same = done.returncode == 0 and state_of(out) == straight[kind]
        equal += same
        wrong += [] if same else [f"{kind} {index}: {done.stderr[-200:]}"]
        shutil.rmtree(out)
    figures = {"tried": times, "identical": equal, "while saving": caught, "asked": saving}
    return figures | {"rows to redo, most": max(lost), "wrong": wrong}


def _kill_one(words: list[str], out: Path, rng: random.Random, window: float, *, saving: bool) -> bool:
    """Start a run and kill it; whether that was while it saved."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **quiet) as run:
        while not (out / "config.json").exists() and run.poll() is None:
            time.sleep(0.005)
        until = time.monotonic() + rng.random() * window * 0.8
        skip = rng.randrange(4)  # which of the saves to hit
        hit, seen = False, False
        while run.poll() is None and not hit and (saving or time.monotonic() < until):
            partial = any(name.endswith(".partial") for name in _names(out / "checkpoints"))
            skip -= partial and not seen
            seen = partial
            hit = saving and partial and skip < 0
            time.sleep(0.0005 if saving else 0.01)
        run.send_signal(signal.SIGKILL)
    return hit


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


# --- damage ----------------------------------------------------------------------------------------------------------


def damage(root: Path, flips: int, cuts: int, deletions: int) -> Figures:
    """Damage one file that the newest checkpoint needs, then load: the damage must be named, and nothing bad loaded."""
    plan, env, folder = start(root / "base")
    go(plan, env, folder)
    steps = [path.name for path in checkpoint.found(folder.path)]
    good = {name: _marks(folder.path / "checkpoints" / name) for name in steps}
    rng, named, previous, mended = random.Random(1), 0, 0, 0
    ways = [_flip] * flips + [_cut] * cuts + [lambda path, rng: path.unlink()] * deletions
    for way in ways:
        copy = root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder.path, copy)
        newest = copy / "checkpoints" / steps[-1]
        names = [s.name for s in checkpoint._needed(newest) or []]
        needed = [newest.parent / place / name for name in names for place in _segments.PLACES]
        victims = sorted([*newest.iterdir(), *needed])
        way(rng.choice(victims), rng)
        replay = Replay(env.spec, plan.training.replay_capacity)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded = checkpoint.load(copy, "agent", "progress", replay=replay)
        named += bool(caught)
        whole = _marks(loaded.path) == good[loaded.path.name]
        previous += whole and loaded.path.name == steps[-2]
        mended += whole and loaded.path.name == steps[-1] and bool(caught)
    return {"tried": len(ways), "named": named, "previous used": previous, "mended from the copy": mended}


def _marks(path: Path) -> Any:
    arrays = checkpoint.read(path, "agent")[1]["agent"]
    return {name: array.tobytes() for name, array in arrays.items()}, replay_of(path)


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
    """Spoil a state or an update at random steps behind the first checkpoint."""
    rng, stopped, finite, said = random.Random(2), 0, 0, []
    for index in range(times):
        plan, env, folder = start(root / f"nan-{index}")
        at = rng.randrange(10, 50)

        def spoil(agent: Any, batches: Any, left: list[int], update: Any = online.update_many) -> Any:
            left[0] -= 1
            agent, metrics = update(agent, batches)
            return agent, {name: value * (np.nan if left[0] == 0 else 1) for name, value in metrics.items()}

        left = [at]
        patch = replaced(online, "update_many", lambda a, b, left=left: spoil(a, b, left))
        with patch if index % 2 else contextlib.nullcontext():
            try:
                go(plan, env if index % 2 else Spoiled(env, 6 * at + 150), folder)
            except UserError as error:
                stopped += "nan" in str(error) and "step" in str(error)
                said.append(str(error))
        arrays = checkpoint.load(folder.path, "agent").parts["agent"].values()
        finite += all(np.isfinite(a).all() for a in arrays)
    return {"tried": times, "stopped and named": stopped, "last checkpoint finite": finite, "said": said[:2]}


def full_disk(root: Path, times: int) -> Figures:
    """Fill the disk, or make it read-only, at a random episode; then make room and resume."""
    rng, said, resumed = random.Random(3), 0, 0
    plan, env, folder = start(root / "straight")
    go(plan, env, folder)
    straight, mounted = state_of(folder.path), _mount(root / "small")
    for index in range(times):
        out = root / "small" / f"run-{index}"
        plan, env, folder = start(out)
        spoil, mend = _full(root / "small") if index % 2 == 0 or not mounted else _read_only(root / "small")
        left, original = [rng.randrange(8, 19)], online._Run.iterate

        def iterate(self: Any, log: Any, left: Any = left, original: Any = original, spoil: Any = spoil) -> int:
            left[0] -= 1
            if left[0] == 0:
                spoil()
            return original(self, log)

        with replaced(online._Run, "iterate", iterate), contextlib.ExitStack() as stack:
            stack.callback(mend)
            try:
                go(plan, env, folder)
            except UserError as error:
                said += "cannot write" in str(error) and "is kept" in str(error)
        go(plan, env, folder, resume=True)
        resumed += state_of(out) == straight
        shutil.rmtree(out)
    if mounted:
        subprocess.run(["umount", str(root / "small")], check=True)
    return {"tried": times, "said in one line": said, "resumed identical": resumed, "real disk": mounted}


def _mount(place: Path) -> bool:
    """A disk of 4 MiB, if we may; otherwise only a folder, and its limits are pretended."""
    place.mkdir()
    if os.geteuid() != 0:
        return False
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False
    )
    return done.returncode == 0


def _full(place: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    ballast = place / "ballast"
    if not os.path.ismount(place):
        stack = contextlib.ExitStack()

        def refuse(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        return lambda: stack.enter_context(replaced(checkpoint, "fill", refuse)), stack.close

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
                with replaced(online, "run_online", None):  # nothing gets as far as that
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
    figures = {"minutes": minutes, "steps": rows[-1]["env_step"], "exit code": code}
    figures |= {"memory growth": round(growth, 4), "open files": sorted({files for _, files in late})}
    return figures | {"slower in the second half": round(drift, 4)}


def overhead(root: Path, steps: int, env: str = "fetch-reach") -> Figures:
    """The share of wall time that saving and checking take, at the preset `fast`."""
    from tdinfonce.training import collect

    plan = recipe.build(
        env, "td-infonce", "fast", 0, goal_space=None, settings=[f"env_steps={steps}", "final_episodes=1"]
    )
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
        for place, name in ((online._Run, "save"), (checkpoint, "save_best"), (online, "check_metrics")):
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
    "nan": lambda f: f["stopped and named"] == f["last checkpoint finite"] == f["tried"],
    "disk": lambda f: f["said in one line"] == f["resumed identical"] == f["tried"],
    "worker": lambda f: (
        f["steps"] >= f["asked"] and 1 <= f["episodes dropped"] <= f["killed"] and f["longest wait, s"] < 10
    ),
    "hang": lambda f: f["episodes dropped"] == 1,
    "bad input": lambda f: f["one line"] == f["tried"] and f["slowest, s"] < 5,
    "hostile files": lambda f: f["exit code"] == 0,
    "kills": lambda f: (
        f["identical"] == f["tried"] and f["while saving"] >= f["asked"] and f["rows to redo, most"] <= 1
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
