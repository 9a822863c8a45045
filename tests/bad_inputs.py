"""Hundreds of wrong calls of the command line: names, numbers, files and combinations that cannot work."""

import random
from pathlib import Path

NUMBERS = {
    "int": ["", "x", "1.5", "-1", "1e3x", "nan", "inf", "0x", "--", "9" * 40, "-" + "9" * 30, "1 2", "½", "0"],
    "float": ["", "x", "nan", "inf", "-inf", "-1", "1e999", "1,5", "0..1", "true", "9" * 400],
    "share": ["", "x", "nan", "inf", "-0.1", "1.1", "2", "-1e-9", "1e9"],
    "widths": ["", "x", "0", "-8", "8,0", "8,-1", "1.5", "1000000", "99999,99999", "nan", "8;8", "[]", "9" * 30],
    "bool": ["", "2", "maybe", "on", "nan", "-1", "truee"],
}
COUNTS = ["env_steps", "updates_per_call", "batch_size", "eval_every", "eval_episodes", "final_episodes"]
SETTINGS = {
    "int": [*COUNTS, "replay_capacity", "keep_checkpoints"],
    "float": ["updates_per_env_step", "exploration_noise", "actor_rate", "scale_growth"],
    "share": ["discount", "exploration_uniform", "exploration_episodes"],
    "widths": ["hidden"],
    "bool": ["replay_on_disk", "layer_norm", "env_worker"],
}
WORDS = ["", " ", "x", "-", "--", "poin", "PÖINT", "../..", "/etc/passwd", "a" * 300, "a\nb", "a\0b", "%s%n", "$(true)"]
WORDS += ["'; drop", "🤖", ":", "::", ":-v0", "..:x-v0", "no.such.module:Env-v0", "-v0", "x-v999", "*", "\\", "{}"]
OPTIONS = ["--envv", "--seedd", "--foo", "-x", "--no-such", "--seed", "--set", "--resume", "--threads"]


def bad_calls(root: Path, count: int) -> list[list[str]]:
    """``count`` different calls, each of them wrong."""
    point, calls = ["train", "--env", "point", "--agent", "gcbc", "--out", str(root / "out")], []
    for kind, names in SETTINGS.items():
        for name in names:
            for value in NUMBERS[kind]:
                calls.append([*point, "--set", f"{name}={value}"])
    for word in WORDS:
        calls += [["train", "--env", word, "--out", str(root / "out")], [*point[:3], "--agent", word, "--out", "out"]]
        calls += [[*point, "--preset", word], [*point, "--goal-space", word], [*point, "--noise-kind", word + "x"]]
        calls += [[*point, "--set", word], [*point, "--set", f"{word}=1"], ["eval", str(root / "none"), "--env", word]]
        calls += [["train", "--resume", str(root / "none") + word], ["check-env", word], ["list", "--settings", word]]
        if not word.endswith(("-v0", "-v999")):  # these could be downloaded
            calls += [["data", "inspect", word or "x"], ["train", "--dataset", word or "x", "--out", str(root / "out")]]
        calls += [
            ["reproduce", word or "x"],
            ["report", str(root / "none") + word],
            [word or "x"],
            ["data", "make", word],
        ]
    for value in NUMBERS["int"]:
        if value != "0":
            calls += [[*point, f"--seed={value}"], ["data", "make", "pointmaze-medium", f"--seed={value}"]]
        calls += [[*point, f"--env-steps={value}"], ["eval", str(root / "none"), f"--episodes={value}"]]
        calls += [["data", "make", "pointmaze-medium", f"--transitions={value}"], [*point, f"--threads={value}"]]
        calls += [["reproduce", "tabular-occupancy", f"--seeds={value}", "--out", str(root / "out")]]
    for value in NUMBERS["share"]:
        calls += [[*point, f"--noise={value}"], ["bench", f"--seconds={value}x"]]
    for option in OPTIONS:
        calls += [[*point, option], ["eval", option], ["report", option], ["list", option], ["bench", option]]
    calls += [[*point, "--updates", "5"], [*point, "--goal", "0:2"], [*point, "--test-goal", "nan"]]
    # No setting at all is none to complain about.
    calls = [call for call in calls if not _fine(call) and call not in ([*point, "--set"], [*point, "--set", "--"])]
    random.Random(0).shuffle(calls)
    return calls[:count]


def _fine(call: list[str]) -> bool:
    """Whether a call of the grid above happens to be right."""
    return call[-1] in {"eval_every=0", "updates_per_env_step=2", "--noise=", "scale_growth=2", "replay_capacity=1 2"}
