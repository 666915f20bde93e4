"""Runs clients against a real API server process on SQLite that is killed again and again, and judges what they saw.

By hand, as long as you like::

    python -m tests.robustness.run --seeds 1-20 --seconds 30

``test_kill`` runs the short form. ``FAULTS`` are servers that are broken on purpose (``faulty``), to see the checker object.
"""

import argparse
import asyncio
import random
import signal
import ssl
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from tests.robustness import traffic
from tests.robustness.checker import check
from tests.robustness.history import History, Watched, Write
from tests.support.daemons import Bench, Daemon, bench

WRITERS = 5
READY_SECONDS = 30.0
END_SECONDS = 5.0


class Server:
    """The process under test."""

    def __init__(self, made: Bench, fault: str) -> None:
        self._bench, self._fault = made, fault
        self._daemon: Daemon | None = None

    async def start(self) -> None:
        environment = {"PYB_FAULT": self._fault} if self._fault else None
        module = "tests.robustness.faulty" if self._fault else "cli"
        flags = self._bench.apiserver_flags()
        self._daemon = await asyncio.to_thread(self._bench.start, "apiserver", *flags, environment=environment, module=module)
        await asyncio.to_thread(self._bench.wait, self._daemon, self._ready, READY_SECONDS)

    def _ready(self) -> bool:
        return self._bench.get("/readyz").status == 200

    async def interrupt(self, number: signal.Signals) -> None:
        assert self._daemon is not None
        self._daemon.process.send_signal(number)
        await asyncio.to_thread(self._daemon.process.wait)

    async def pause(self, seconds: float) -> None:
        assert self._daemon is not None
        self._daemon.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._daemon.process.send_signal(signal.SIGCONT)


async def trouble(server: Server, history: History, choose: random.Random, seconds: float) -> None:
    """Kill -9 most of the time; now and then a clean stop, or a pause as of a busy machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0.3 + choose.random() * 2.5)
        kind = choose.random()
        if kind < 0.15:
            await server.pause(choose.random())
            continue
        await server.interrupt(signal.SIGTERM if kind < 0.3 else signal.SIGKILL)
        history.interruptions += 1
        await server.start()


async def episode(folder: Path, seed: int, seconds: float, fault: str = "") -> History:
    """One history. Everything random follows from ``seed``, but for the timing of processes."""
    history = History()
    with bench(folder / "c") as made:
        server = Server(made, fault)
        await server.start()
        tls = ssl.create_default_context(cafile=str(made.pki / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=20)) as session:
            target = traffic.Target(f"https://127.0.0.1:{made.port}", made.token, session, history)
            await _drive(target, server, seed, seconds)
    return history


async def _drive(target: traffic.Target, server: Server, seed: int, seconds: float) -> None:
    history = target.history
    start = (await traffic.list_all(target)).revision
    watched = [Watched("a watch of all", start), Watched("another watch of all", start)]
    watched += [Watched(f"a watch of {color}", start, color) for color in traffic.COLORS]
    history.watches.extend(watched)
    async with asyncio.TaskGroup() as everything:
        following = [
            everything.create_task(traffic.Watcher(target, one, random.Random(f"{seed} watch {number}")).run())
            for number, one in enumerate(watched)
        ]
        async with asyncio.TaskGroup() as working:
            for number in range(WRITERS):
                working.create_task(traffic.Writer(target, f"w{number}", random.Random(f"{seed} write {number}")).run())
            working.create_task(traffic.read(target, random.Random(f"{seed} read")))
            working.create_task(traffic.stream(target, random.Random(f"{seed} stream")))
            await trouble(server, history, random.Random(f"{seed} trouble"), seconds)
            target.stopping.set()
        await _finish(target)
        _, stuck = await asyncio.wait(following, timeout=END_SECONDS)
        target.over.set()
        history.troubles += ["a watch did not come to the end" for _ in stuck]


async def _finish(target: traffic.Target) -> None:
    """A last write in each colour, which tells watches to stop, and a last list."""
    for color in traffic.COLORS:
        name = f"{traffic.LAST}-{color}"
        write = Write("create", f"default/{name}", time.monotonic(), name)
        body = {"metadata": {"name": name, "labels": {"color": color}}, "data": {"v": name}}
        target.history.writes.append(write)
        status, answer = await target.send("POST", "/api/v1/namespaces/default/configmaps", body)
        if status >= 300:
            target.history.troubles.append(f"after all restarts a write is answered with {status}: {answer.get('message')}")
            target.over.set()
            return
        traffic.acknowledge(write, status, answer)
    target.history.reads.append(await traffic.list_all(target))


def report(history: History) -> str:
    acknowledged = sum(write.outcome == "ok" for write in history.writes)
    lost = sum(write.outcome == "unknown" for write in history.writes)
    events = sum(len(watched.events) for watched in history.watches)
    return (
        f"{len(history.writes)} writes ({acknowledged} acknowledged, {lost} without an answer), {len(history.reads)} lists, "
        f"{events} events in {len(history.watches)} watches, {history.interruptions} restarts"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-5", help="a number, or FIRST-LAST")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--fault", default="")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    bad = 0
    for seed in range(int(first), int(last or first) + 1):
        with tempfile.TemporaryDirectory(prefix="pyb-robust-") as folder:
            history = asyncio.run(episode(Path(folder), seed, options.seconds, options.fault))
        found = check(history)
        verdict = "good" if not found else f"{len(found)} BROKEN PROMISES"
        lines = [f"seed {seed}: {report(history)}: {verdict}", *(f"  {line}" for line in found[:20])]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
