"""Runs clients against real API servers that are killed, paused, cut off and starved again and again, and judges what they saw.

By hand, as long as you like::

    python -m tests.robustness.run --world etcd --seeds 1-20 --seconds 30
    make robustness RUNS=10        # both worlds in turn, with new seeds, noted in docs/reliability.md

``test_kill`` runs the short forms. ``--fault`` plants a bug into the server (``faulty``), to see the checker object.
"""

import argparse
import asyncio
import random
import ssl
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from tests.robustness import ledger, traffic
from tests.robustness.checker import check
from tests.robustness.history import History, Watched, Write
from tests.robustness.worlds import WORLDS, World

WRITERS = 5
END_SECONDS = 15.0
REQUEST_SECONDS = 5.0


async def trouble(world: World, history: History, choose: random.Random, seconds: float) -> None:
    """One fault after another, with a moment in between."""
    end = time.monotonic() + seconds
    names, weights = list(world.faults), list(world.faults.values())
    while time.monotonic() < end:
        await asyncio.sleep(0.3 + choose.random() * 2.5)
        (fault,) = choose.choices(names, weights)
        await world.trouble(fault, choose)
        history.faults[fault] += 1


async def episode(folder: Path, seed: int, seconds: float, fault: str = "", kind: str = "sqlite") -> History:
    """One history. Everything random follows from ``seed``, but for the timing of processes."""
    history = History()
    async with WORLDS[kind](folder, fault) as world:
        tls = ssl.create_default_context(cafile=str(world.ca))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS if len(world.urls) > 1 else 20)
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            target = traffic.Target(world.urls, world.token, session, history, choose=random.Random(f"{seed} way"))
            await _drive(target, world, seed, seconds)
    return history


async def _drive(target: traffic.Target, world: World, seed: int, seconds: float) -> None:
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
            await trouble(world, history, random.Random(f"{seed} trouble"), seconds)
            target.stopping.set()
        await world.calm()
        await _finish(target)
        _, stuck = await asyncio.wait(following, timeout=END_SECONDS)
        target.over.set()
        history.troubles += ["a watch did not come to the end" for _ in stuck]


async def _finish(target: traffic.Target) -> None:
    """A last write in each colour, which tells watches to stop, and a last list."""
    for color in traffic.COLORS:
        if not await _last_write(target, color):
            target.over.set()
            return
    target.history.reads.append(await traffic.list_all(target))


async def _last_write(target: traffic.Target, color: str) -> bool:
    """With everything in order again it must succeed; an answer may yet be lost with a connection that had been cut."""
    said = ""
    for attempt in range(20):
        name = f"{traffic.LAST}-{color}-{attempt}"
        write = Write("create", f"default/{name}", time.monotonic(), name)
        body = {"metadata": {"name": name, "labels": {"color": color}}, "data": {"v": name}}
        target.history.writes.append(write)
        try:
            status, answer = await target.send("POST", "/api/v1/namespaces/default/configmaps", body)
        except traffic.LOST as error:
            said = repr(error)
        else:
            if status < 300:
                traffic.acknowledge(write, status, answer)
                return True
            said = f"{status}: {answer.get('message')}"
        await asyncio.sleep(0.5)
    target.history.troubles.append(f"after all trouble a write is answered with {said}")
    return False


def report(history: History) -> str:
    acknowledged = sum(write.outcome == "ok" for write in history.writes)
    lost = sum(write.outcome == "unknown" for write in history.writes)
    events = sum(len(watched.events) for watched in history.watches)
    return (
        f"{len(history.writes)} writes ({acknowledged} acknowledged, {lost} without an answer), {len(history.reads)} lists, "
        f"{events} events in {len(history.watches)} watches"
    )


def run_one(kind: str, seed: int, seconds: float, fault: str) -> tuple[History, list[str]]:
    """One history and what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="pyb-robust-", ignore_cleanup_errors=True) as folder:
        history = asyncio.run(episode(Path(folder), seed, seconds, fault, kind))
    return history, check(history)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=sorted(WORLDS), default="sqlite")
    parser.add_argument("--seeds", default="1-5", help="a number, or FIRST-LAST")
    parser.add_argument("--runs", type=int, help="so many with new seeds, the worlds in turn, noted in the ledger")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--fault", default="")
    options = parser.parse_args()
    if options.runs:
        planned = [(kind, seed, True) for kind, seed in ledger.plan(options.runs, sorted(WORLDS))]
    else:
        first, _, last = options.seeds.partition("-")
        planned = [(options.world, seed, False) for seed in range(int(first), int(last or first) + 1)]
    bad = 0
    for kind, seed, noted in planned:
        history, found = run_one(kind, seed, options.seconds, options.fault)
        verdict = "good" if not found else f"{len(found)} BROKEN PROMISES"
        faults = ", ".join(f"{count} {name}" for name, count in sorted(history.faults.items()))
        lines = [f"{kind}, seed {seed}: {report(history)}; {faults}: {verdict}", *(f"  {line}" for line in found[:20])]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        if noted:
            ledger.note(ledger.Row(kind, seed, options.seconds, faults, report(history), verdict))
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
