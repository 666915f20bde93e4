"""What a daemon is: a name, its flags, and one coroutine. Called by each daemon's ``__main__`` and by ``cli``.

Every ``<room>/__main__.py`` ends in a module constant ``DAEMON``. ``cli`` turns it into a verb of ``pybernetes``;
``pybernetes up`` runs several in one process. So a daemon's ``main`` never touches process-wide state: signals, the
event loop policy and log handlers belong to :func:`run`.
"""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from apimachinery.errors import StatusError
from component import flags, logs
from component.errors import OperatorError

_log = logs.get(__name__)
_SETTLE_AFTER = 15.0


@dataclass(frozen=True)
class Daemon:
    """One long-running part of the system.

    ``main(options)`` runs until cancelled, and on cancellation shuts down cleanly. ``options`` maps click parameter
    names to parsed values. It raises ``click.UsageError`` for flags that do not fit together, before any side effect.
    """

    name: str
    help: str
    params: Sequence[click.Parameter]
    main: Callable[[Mapping[str, Any]], Awaitable[None]]


def command(daemon: Daemon) -> click.Command:
    """The daemon as a click command, for ``cli`` and for :func:`run`. Invoking it runs the daemon and exits."""

    def callback(**options: Any) -> None:
        raise SystemExit(_execute([(daemon, options)]))

    params = [*daemon.params, *flags.logging_flags(), flags.version()]
    return click.Command(daemon.name, params=params, help=daemon.help, callback=callback)


def run(daemon: Daemon, argv: Sequence[str] | None = None) -> NoReturn:
    """Parse ``argv`` (the process' own by default), run the daemon until SIGTERM or SIGINT, and exit.

    Exit status: 0 after a requested stop, 1 after a failure, 2 for flags that make no sense.
    """
    command(daemon).main(list(argv) if argv is not None else None, prog_name=daemon.name)
    raise SystemExit(0)


def run_all(daemons: Sequence[tuple[Daemon, Sequence[str]]]) -> int:
    """Run several daemons in this process under one TaskGroup; the first that fails brings all down.

    The logging flags of the first daemon count for all. Returns the exit status, as :func:`run` describes it.
    """
    parsed = []
    for daemon, argv in daemons:
        try:
            context = command(daemon).make_context(daemon.name, list(argv))
        except click.exceptions.Exit as done:
            return done.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        parsed.append((daemon, context.params))
    return _execute(parsed)


PORTIONS = (5_000, 10, 400)  # new objects to a young collection, of those to a middle one, of those to a full one


def settle_memory() -> None:
    """After start: collect once, then keep what lives out of later collections, and hand free pages back.

    A full collection over a large informer cache stops the loop for a fifth of a second; frozen objects are skipped.
    """
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _raise_file_limit() -> None:
    """As many open files as the process may have; Go programs do the same when they start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _execute(daemons: Sequence[tuple[Daemon, dict[str, Any]]]) -> int:
    first = daemons[0][1]
    logs.setup(first.get("verbosity", 0), first.get("logging_format", "text"))
    # Garbage is collected in small portions: looking at an object takes half a microsecond, so that the middle generation, which
    # is 50,000 objects when its turn comes, takes as long as a long request. Ten thousand watches are two million objects.
    gc.set_threshold(*PORTIONS)
    _raise_file_limit()
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(daemons))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except _DaemonFailedError:
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 0
    return 0


class _DaemonFailedError(Exception):
    """At least one daemon ended with an error, which has been reported."""


async def _until_signal(daemons: Sequence[tuple[Daemon, dict[str, Any]]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(1)
        _log.info("Received signal, shutting down; a second one exits at once", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    tidying = asyncio.create_task(_tidy_memory(), name="tidy-memory")
    try:
        await _supervise(daemons, stop)
    finally:
        tidying.cancel()


async def _tidy_memory() -> None:
    await asyncio.sleep(_SETTLE_AFTER)
    settle_memory()
    from component import memory  # with ctypes, which nobody needs before

    await memory.keep_returning()


async def _supervise(daemons: Sequence[tuple[Daemon, dict[str, Any]]], stop: asyncio.Event) -> None:
    """Run them all until ``stop`` is set or one ends, then cancel the rest and wait for their clean-up."""
    failures: list[tuple[str, BaseException]] = []

    async def one(daemon: Daemon, options: dict[str, Any]) -> None:
        logs.daemon_name.set(daemon.name if len(daemons) > 1 else "")
        try:
            await daemon.main(options)
            if not stop.is_set():
                _log.info("Daemon ended by itself", daemon=daemon.name)
        except Exception as error:
            failures.append((daemon.name, error))
            _report(daemon.name, error)
        finally:
            stop.set()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(daemon, options), name=daemon.name) for daemon, options in daemons]
        await stop.wait()
        for task in tasks:
            task.cancel()
    usage = [error for _, error in failures if isinstance(error, click.ClickException)]
    if usage:
        raise usage[0]
    if failures:
        raise _DaemonFailedError


def _report(name: str, error: BaseException) -> None:
    """A sentence for what an operator can mend (a busy port, a missing file); a traceback for what only we can."""
    if isinstance(error, click.ClickException):
        return
    leaves = list(_leaves(error))
    if all(isinstance(leaf, OSError | OperatorError | StatusError) and str(leaf) for leaf in leaves):
        sys.stderr.write(f"Error: {name}: {logs.redact_text('; '.join(map(_sentence, leaves)))}\n")
        if not _log.enabled(4):
            return
    _log.exception("Daemon failed", daemon=name, err=error)


def _sentence(error: BaseException) -> str:
    """Without the number that only C programmers know."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename!s}: {error.strerror}"
    return logs.describe(error)


def _leaves(error: BaseException) -> Sequence[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
