"""An environment in a process of its own: if it dies or hangs, the run goes on with the next episode.

The two sides speak in frames of plain arrays. The process ends when its parent does.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from typing import IO, Any, TypeVar

import numpy as np
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from tdinfonce.errors import EnvironmentLost, UserError
from tdinfonce.types import EnvSpec, Start, Step

__all__ = ["WorkerEnv"]

START_SECONDS = 120.0
STEP_SECONDS = 5.0
LIMIT = 1 << 28
"""Bytes of a frame."""
SCALARS = {"distance": float, "success": bool, "done": bool}
Said = TypeVar("Said", Start, Step)


class WorkerEnv:
    """A `GoalEnv` that lives elsewhere; a lost one raises EnvironmentLost, and is made anew at the next reset."""

    def __init__(self, options: dict[str, Any], *, seconds: float = STEP_SECONDS) -> None:
        """Start the process.

        Args:
            options: for `envs.make`.
            seconds: an answer that takes longer means that it hangs.
        """
        self._options, self._seconds = options, seconds
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except EnvironmentLost as error:
            raise UserError(f"{options.get('env')} cannot be made: {error}") from error

    @property
    def process_id(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def reset(self, seed: int) -> Start:
        """Start an episode, in a new process if the last one was lost."""
        if self._process is None:
            self._start()
        return _unpack(Start, self._ask(b"r" + struct.pack("<q", seed)))

    def step(self, action: np.ndarray) -> Step:
        """Take one action."""
        return _unpack(Step, self._ask(b"s" + np.ascontiguousarray(action, "<f4").tobytes()))

    def render(self) -> np.ndarray:
        """Pictures are drawn by environments of this process."""
        raise UserError("an environment in a process of its own draws no pictures; leave out env_worker")

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # helpers that it started too
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _start(self) -> None:
        words = [sys.executable, "-m", __name__, json.dumps(self._options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # In a session of its own, for Ctrl-C is meant for the parent.
        self._process = subprocess.Popen(words, **pipes, bufsize=0, start_new_session=True)  # type: ignore[call-overload]
        fields: dict[str, Any] = json.loads(self._answer(START_SECONDS))
        fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        self.spec = EnvSpec(**fields)

    def _ask(self, question: bytes) -> bytes:
        if self._process is None or self._process.stdin is None:
            raise EnvironmentLost("its process is gone")
        try:
            _write(self._process.stdin, question)
        except OSError:
            raise self._lost("died") from None
        return self._answer(self._seconds)

    def _answer(self, seconds: float) -> bytes:
        until = time.monotonic() + seconds
        size = struct.unpack("<I", self._read(4, until))[0]
        if not 1 <= size <= LIMIT:
            raise self._lost("spoke nonsense")
        frame = self._read(size, until)
        if frame[:1] == b"e":
            self.close()
            raise UserError(frame[1:].decode(errors="replace"))
        return frame[1:]

    def _read(self, size: int, until: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        data = b""
        while len(data) < size:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise self._lost("hangs")
            more = self._process.stdout.read(size - len(data))
            if not more:
                raise self._lost("died")
            data += more
        return data

    def _lost(self, how: str) -> EnvironmentLost:
        self.close()
        return EnvironmentLost(f"its process {how}")


def _write(pipe: IO[bytes], frame: bytes) -> None:
    data = memoryview(struct.pack("<I", len(frame)) + frame)
    while data:
        data = data[pipe.write(data) :]


def _pack(said: Start | Step) -> bytes:
    fields = said._asdict().items()
    return tensor_bytes({name: np.ascontiguousarray(value) for name, value in fields if value is not None})


def _unpack(kind: type[Said], data: bytes) -> Said:
    fields: dict[str, Any] = dict(parse_tensors(data))
    fields |= {name: SCALARS[name](array.item()) for name, array in fields.items() if name in SCALARS}
    return kind(**fields)


def main() -> None:
    """Serve one parent."""
    from tdinfonce import envs

    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what an environment prints is no frame
    questions = os.fdopen(0, "rb")
    try:
        env = envs.make(**json.loads(sys.argv[1]))
        _write(answers, b"o" + json.dumps(dataclasses.asdict(env.spec)).encode())
        while len(head := questions.read(4)) == 4:
            frame = questions.read(struct.unpack("<I", head)[0])
            if frame[:1] == b"r":
                said: Start | Step = env.reset(struct.unpack("<q", frame[1:])[0])
            else:
                said = env.step(np.frombuffer(frame[1:], "<f4"))
            _write(answers, b"o" + _pack(said))
    except Exception as error:
        with contextlib.suppress(OSError):
            _write(answers, b"e" + f"{type(error).__name__}: {' '.join(str(error).split())}".encode())


if __name__ == "__main__":
    main()
