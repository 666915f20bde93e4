"""Running programs: one asynchronous call with a time limit and bounded output, never through a shell.

Everything that starts a program takes a Runner; tests hand in FakeRunner.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from component.clock import Clock, RealClock, timeout

MAX_OUTPUT = 4 << 20


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended. ``returncode`` is negative for a signal; output past the bound is cut and marked."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class ProcessError(Exception):
    """A program could not be started, failed, or took too long; the text names the program and what it said."""

    def __init__(self, message: str, completed: Completed | None = None) -> None:
        super().__init__(message)
        self.completed = completed


class Runner(Protocol):
    """Starts programs and waits for them."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
        max_output: int = MAX_OUTPUT,
    ) -> Completed:
        """Run ``argv`` to its end, feeding ``stdin``.

        The program's whole process group is killed on time-out and on cancellation. ``env`` is added to this process'.
        :raises ProcessError: when it cannot start, outlives ``timeout``, or, with ``check``, returns other than 0.
        """
        ...


class RealRunner:
    """A Runner over ``asyncio`` subprocesses."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or RealClock()

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
        max_output: int = MAX_OUTPUT,
    ) -> Completed:
        process = await self._start(argv, env, cwd)
        try:
            completed = await self._finish(process, tuple(argv), stdin, timeout, max_output)
        finally:
            await _kill_group(process)
        if check and completed.returncode != 0:
            raise ProcessError(_failed(completed), completed)
        return completed

    async def _start(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        merged = {**os.environ, **env} if env is not None else None
        try:
            return await asyncio.create_subprocess_exec(
                *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=merged, cwd=cwd, start_new_session=True
            )
        except OSError as error:
            raise ProcessError(f"cannot start {argv[0]}: {error.strerror or error}") from error

    async def _finish(
        self, process: asyncio.subprocess.Process, argv: tuple[str, ...], stdin: bytes, seconds: float, bound: int
    ) -> Completed:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with timeout(self._clock, seconds):
                (out, cut_out), (err, cut_err), _ = await asyncio.gather(
                    _read(process.stdout, bound), _read(process.stderr, bound), _feed(process, stdin)
                )
                returncode = await process.wait()
        except TimeoutError:
            raise ProcessError(f"{argv[0]} did not end within {seconds:g} s: {' '.join(argv)}") from None
        return Completed(argv, returncode, out, err, cut_out or cut_err)


def _failed(completed: Completed) -> str:
    said = (completed.stderr or completed.stdout).decode(errors="replace").strip()
    how = f"exit status {completed.returncode}" if completed.returncode >= 0 else f"signal {-completed.returncode}"
    return f"{' '.join(completed.argv)}: {how}" + (f": {said[-2000:]}" if said else "")


async def _read(stream: asyncio.StreamReader, bound: int) -> tuple[bytes, bool]:
    """Read to the end, keeping at most ``bound`` bytes; the rest is drained so that the writer never blocks."""
    kept, size, cut = [], 0, False
    while chunk := await stream.read(65536):
        room = bound - size
        if len(chunk) > room:
            cut = True
        if room > 0:
            kept.append(chunk[:room])
            size += len(kept[-1])
    return b"".join(kept), cut


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    # A child may end without reading all of it; its exit status tells why. uvloop says so with a RuntimeError when the
    # pipe was closed before the first byte.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        if data:
            process.stdin.write(data)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.shield(process.wait())


class FakeRunner:
    """A scripted Runner that records every call. It imitates neither time-outs nor the output bound.

    ``answer(argv, stdin)`` gives the result: a Completed, output bytes (exit status 0) or an exit status.
    """

    def __init__(self, answer: Callable[[Sequence[str], bytes], Completed | bytes | int] = lambda argv, stdin: 0) -> None:
        self._answer = answer
        self.calls: list[tuple[tuple[str, ...], bytes]] = []

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
        max_output: int = MAX_OUTPUT,
    ) -> Completed:
        await asyncio.sleep(0)
        self.calls.append((tuple(argv), stdin))
        answer = self._answer(argv, stdin)
        if isinstance(answer, bytes):
            answer = Completed(tuple(argv), 0, answer, b"")
        elif isinstance(answer, int):
            answer = Completed(tuple(argv), answer, b"", b"")
        if check and answer.returncode != 0:
            raise ProcessError(_failed(answer), answer)
        return answer
