"""What one user who misbehaves can do to everybody else: the leases of nodes while he lists, watches, dawdles and floods.

By hand (``make misbehave``)::

    python -m tests.robustness.misbehave [--seconds 30] [--nodes 50] [--only lists,watches]

A real API server process on SQLite, 2,000 pods of 3 KB, a process with nodes that renew their leases, and an attacking process
for each kind of attack: each kind alone, then all together. For each it prints how long renewals took, how much memory the server
had, and what the attacker got. It ends with 1 if p99 goes over 100 ms, a lease is lost, an acknowledged renewal is not there
afterwards, or memory does not come back. Where renewals are slow though nobody attacks, the machine is too busy to tell by the
clock: then it is the processor time that the server used between a renewal and its answer that counts. The bounded form, without
figures, is ``tests/security/test_misbehave.py``.
"""

import argparse
import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp

from tests.robustness.renewals import NAMESPACE
from tests.support.daemons import Bench, bench

MALLORY, MALLORY_TOKEN = "mallory", "token-of-mallory"
P99_SECONDS = 0.1
LEASE_SECONDS = 40.0  # a node that does not renew for so long is taken for dead
PODS = 2000
OPEN_SECONDS = 300.0  # until all connections of an attack must be open
SETTLE_SECONDS = 30.0
KEPT = 0.2  # of what an attack took there may be so much afterwards: free pieces between what is remembered of that time

Kind = tuple[str, int, str]  # what ``attack`` calls it, connections, path
ATTACKS: dict[str, Kind] = {
    "1,000 concurrent LISTs": ("lists", 1000, "/api/v1/pods"),
    "300 LISTs read slowly": ("slow-lists", 300, "/api/v1/pods"),
    "10,000 open watches": ("watches", 10_000, "/api/v1/pods?watch=1&resourceVersion={revision}"),
    "300 watches read slowly": ("slow-watches", 300, "/api/v1/pods?watch=1"),
    "300 heads that do not end": ("slow-heads", 300, ""),
    "300 bodies that do not end": ("slow-bodies", 300, "/api/v1/namespaces/default/configmaps"),
    "100 floods of headers": ("floods", 100, ""),
}
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@dataclass(frozen=True, slots=True)
class Renewal:
    began: float
    took: float
    used: float  # processor time of the server meanwhile
    status: int


@dataclass
class Scene:
    """The server, and who is around it."""

    bench: Bench
    session: aiohttp.ClientSession
    pid: int
    nodes: dict[str, str]  # tokens by name
    renewals: list[Renewal] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    busy: bool = False  # the machine has so much else to do that only processor time says anything

    def memory(self) -> float:
        """Of the server, in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        url = f"https://127.0.0.1:{self.bench.port}{path}"
        headers = {"Authorization": f"Bearer {self.bench.token}", "Content-Type": content_type}
        async with self.session.request(
            method, url, data=json.dumps(body) if body is not None else None, headers=headers
        ) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text}")
            return json.loads(text)

    def orders(self, **more: Any) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.bench.port, "ca": str(self.bench.pki / "ca.crt"), **more}


@asynccontextmanager
async def scene(folder: Path, nodes: int) -> AsyncIterator[Scene]:
    with bench(folder / "c") as made:
        tokens = {f"n{number}": f"token-of-n{number}" for number in range(nodes)}
        lines = [f'{token},system:node:{name},{name},"system:nodes"' for name, token in tokens.items()]
        with (made.pki / "tokens.csv").open("a") as file:
            file.write("\n".join([f"{MALLORY_TOKEN},{MALLORY},{MALLORY},", *lines]) + "\n")
        daemon = await asyncio.to_thread(made.start_apiserver)
        tls = ssl.create_default_context(cafile=str(made.pki / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=tls, limit=20)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
            prepared = Scene(made, session, daemon.process.pid, tokens)
            await _fill(prepared)
            yield prepared


async def _fill(scene: Scene) -> None:
    """Pods, and what the user may: read and edit, as anybody who works with a cluster."""
    await scene.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    for start in range(0, PODS, 20):
        path = "/api/v1/namespaces/default/pods"
        await asyncio.gather(*(scene.call("POST", path, pod(number)) for number in range(start, start + 20)))
    for role in ("view", "edit"):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}]
        await scene.call("POST", _BINDINGS, {"metadata": {"name": f"m-{role}"}, "roleRef": reference, "subjects": subjects})


def pod(number: int) -> dict[str, Any]:
    """About 3 KB when stored."""
    environment = [{"name": f"VARIABLE_{index}", "value": f"value-{index}"} for index in range(5)]
    containers = [{"name": f"c{index}", "image": f"registry.example/app:{index}", "env": environment} for index in range(2)]
    meta = {"name": f"pod-{number:05}", "labels": {"app": f"app-{number % 50}"}, "annotations": {"note": "x" * 400}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}


# --------------------------------------------------------------------------- processes around the server


@asynccontextmanager
async def _child(module: str, orders: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, stdin=pipe, stdout=pipe, limit=1 << 20)
    try:
        _tell(process, json.dumps(orders))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _tell(process: asyncio.subprocess.Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line.encode() + b"\n")


async def _line(process: asyncio.subprocess.Process, seconds: float) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(seconds):
        return (await process.stdout.readline()).decode().strip()


@asynccontextmanager
async def renewing(scene: Scene, first_in_line: bool) -> AsyncIterator[None]:
    """Every node renews its lease every second inside the block."""
    async with _child("tests.robustness.renewals", scene.orders(tokens=scene.nodes, period=1.0, server=scene.pid)) as process:
        assert process.stdout is not None
        if first_in_line:
            go_first(process.pid)

        async def read(lines: asyncio.StreamReader) -> None:
            while line := (await lines.readline()).decode():
                if line.startswith("{"):
                    scene.acknowledged.update(json.loads(line))
                    return
                began, took, used, status = line.split()
                scene.renewals.append(Renewal(float(began), float(took), float(used), int(status)))

        reading = asyncio.ensure_future(read(process.stdout))
        yield
        _tell(process, "enough")
        await asyncio.wait_for(reading, 30)


# --------------------------------------------------------------------------- rounds


async def one_round(scene: Scene, names: Sequence[str], seconds: float) -> tuple[str, list[str]]:
    """Some attacks at once: a report, and what was wrong."""
    before, peak = scene.memory(), 0.0
    lines: list[str] = []
    wrong: list[str] = []
    async with AsyncExitStack() as stack:
        revision = (await scene.call("GET", "/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
        began = time.monotonic()
        running: list[tuple[str, asyncio.subprocess.Process]] = []
        for name in names:
            kind, count, path = ATTACKS[name]
            orders = scene.orders(kind=kind, count=count, path=path.replace("{revision}", revision), token=MALLORY_TOKEN)
            running.append((name, await stack.enter_async_context(_child("tests.robustness.attack", orders))))
        for name, process in running:
            try:
                await _line(process, OPEN_SECONDS)
                lines.append(f"{name}: open after {time.monotonic() - began:.0f} s")
            except TimeoutError:
                wrong.append(f"{name}: not all connections could be opened")
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            peak = max(peak, scene.memory())
            number += 1
            patch = {"metadata": {"labels": {"turn": str(number)}}}
            path = f"/api/v1/namespaces/default/pods/pod-{number % PODS:05}"
            await scene.call("PATCH", path, patch, "application/merge-patch+json")
            await asyncio.sleep(0.5)
        finished = time.monotonic()
        for name, process in running:
            _tell(process, "enough")
            lines.append(f"{name}: got {await _line(process, 60)}")
    after = await _settled(scene, before)
    during = [one for one in scene.renewals if began <= one.began <= finished]
    took, used = sorted(one.took for one in during), sorted(one.used for one in during)
    p99 = quantile(took, 0.99)
    if not names:
        scene.busy = p99 > P99_SECONDS / 4
    judged = quantile(used, 0.99) if scene.busy else p99
    if judged > P99_SECONDS:
        wrong.append(f"p99 of renewals is {judged * 1000:.0f} ms{' of processor time' if scene.busy else ''}")
    refused = sum(one.status != 200 for one in during)
    if refused:
        wrong.append(f"{refused} renewals were not answered with 200")
    if after - before > max((peak - before) * KEPT, before * 0.5):
        wrong.append(f"{before:.0f} MB before, {peak:.0f} MB at most, and still {after:.0f} MB")
    figures = f"{len(took)} renewals, {_milliseconds(took)}, {_milliseconds(used)} of processor time; "
    figures += f"{before:.0f} MB before, {peak:.0f} MB at most, {after:.0f} MB after"
    return "\n".join([f"{' + '.join(names) or 'nobody'}: {figures}", *(f"    {line}" for line in lines)]), wrong


async def _settled(scene: Scene, before: float) -> float:
    """Memory once it does not fall any more."""
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end and scene.memory() > before * 1.1:  # noqa: ASYNC110 - another process' memory
        await asyncio.sleep(1)
    return scene.memory()


def _milliseconds(ordered: Sequence[float]) -> str:
    """p50, p99 and the most."""
    return f"{quantile(ordered, 0.5) * 1000:.0f}/{quantile(ordered, 0.99) * 1000:.0f}/{ordered[-1] * 1000:.0f} ms"


def quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


async def _judge(scene: Scene) -> list[str]:
    """After everything: leases, and that the server still answers."""
    wrong: list[str] = []
    held = {one["metadata"]["name"]: one["spec"].get("renewTime") for one in (await scene.call("GET", NAMESPACE))["items"]}
    for name, acknowledged in scene.acknowledged.items():
        if (held.get(name) or "") < acknowledged:
            wrong.append(f"node {name}: the renewal of {acknowledged} was acknowledged, there is one of {held.get(name)}")
    answered = sorted(one.began for one in scene.renewals if one.status == 200)
    longest = max((later - earlier for earlier, later in pairwise(answered)), default=0.0)
    if longest > LEASE_SECONDS / 2:
        wrong.append(f"for {longest:.0f} s nobody could renew")
    if any(one.took > LEASE_SECONDS for one in scene.renewals):
        wrong.append("a lease was lost")
    return wrong


def go_first(pid: int) -> None:
    """The process and all its threads, before what others are doing on this machine."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), -15)


async def perform(options: argparse.Namespace, only: Sequence[str]) -> int:
    chosen = [name for name, kind in ATTACKS.items() if not only or kind[0] in only]
    rounds: list[list[str]] = [[]] if options.together else [[], *([name] for name in chosen)]
    if len(chosen) > 1 or options.together:
        rounds.append(chosen)
    bad: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pyb-misbehave-", dir=options.folder) as folder:
        async with scene(Path(folder), options.nodes) as made:
            if options.first:
                go_first(made.pid)
            async with renewing(made, options.first):
                await asyncio.sleep(3)
                for names in rounds:
                    report, wrong = await one_round(made, names, options.seconds)
                    _say(report)
                    for line in wrong:
                        _say(f"    BAD: {line}")
                    bad += wrong
            bad += (ending := await _judge(made))
            _say(
                "\n".join(["at the end:", *(f"    BAD: {line}" for line in ending or ["nothing"])])
                if ending
                else "nothing is lost"
            )
    return 1 if bad else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="of each round, once all connections are open")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--together", action="store_true", help="all of them at once, and nothing else")
    parser.add_argument("--folder", default="/var/tmp", help="where the database is")
    parser.add_argument("--first", action="store_true", help="server and nodes go before whatever else this machine is doing")
    parser.add_argument("--only", default="", help=f"kinds of attack: {','.join(kind[0] for kind in ATTACKS.values())}")
    options = parser.parse_args()
    only = [kind for kind in options.only.split(",") if kind]
    return asyncio.run(perform(options, only))


if __name__ == "__main__":
    sys.exit(main())
