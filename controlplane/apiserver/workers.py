"""``--workers N``: as many processes of the API server on one port, each with its own cache, and this one that keeps them.

Called by ``__main__`` instead of serving. The kernel spreads connections over the listeners (SO_REUSEPORT); a worker that dies
takes its connections along and is started again. A worker is this very command line with its number in the environment.
"""

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping

from component import logs
from component.errors import OperatorError
from component.tasks import Backoff, Supervisor

NUMBER = "PYBERNETES_APISERVER_WORKER"
_STOP_SECONDS = 30.0  # for a worker to drain; then it is killed
_USAGE = 2  # exit status for flags that make no sense: starting again would not help
_PR_SET_PDEATHSIG = 1

_log = logs.get(__name__)


def number(environment: Mapping[str, str] = os.environ) -> int | None:
    """Which worker this process is; None when it is none."""
    text = environment.get(NUMBER, "")
    return int(text) if text.isdecimal() else None


def die_with_parent() -> None:
    """A worker must not keep the port when the process that keeps it has been killed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:  # it was quicker
        raise OperatorError("the process that started this worker is gone")


async def keep(count: int) -> None:
    """Run workers until cancelled. Raises OperatorError when one does not understand its flags."""
    async with Supervisor() as supervisor:
        for each in range(count):
            supervisor.start(f"worker-{each}", _keep_one(each))


async def _keep_one(which: int) -> None:
    pauses = Backoff(0.2, 5.0)
    while True:
        process = await asyncio.create_subprocess_exec(*sys.orig_argv, env={**os.environ, NUMBER: str(which)})
        _log.info("Started worker", worker=which, pid=process.pid)
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        if status == _USAGE:
            raise OperatorError(f"worker {which} does not understand its flags; what it said is above")
        pause = pauses.step()
        _log.error("Worker ended; starting it again", worker=which, status=status, after=f"{pause:.1f}s")
        await asyncio.sleep(pause)


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
