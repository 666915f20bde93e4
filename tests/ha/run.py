"""Kills every process of a highly available control plane in turn, again and again, and judges what a client notices.

    python -m tests.ha.run --minutes 5

Three machines (network namespaces): etcd and an API server on each, controllers and schedulers on two; the client sits on a
machine of its own behind a balancer. Meanwhile a Deployment is scaled, rolled and robbed of pods. Judged: no API
unavailability beyond two seconds (a consistent read and a write, each every 50 ms), another leader within fifteen, and a
Deployment that is right at every moment and in the end. ``tests/e2e/test_high_availability.py`` runs the short form.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from apimachinery.errors import StatusError
from apimachinery.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, PODS, REPLICA_SETS
from apimachinery.times import parse_time
from client import kubeconfig
from client.informer import InformerFactory
from client.rest import Client
from tests.ha import judge
from tests.ha.judge import Bounds, Pods, Probe
from tests.ha.kubelets import Kubelets
from tests.support.ha import Daemon, Plane, control_plane
from tests.support.machines import machines

NODES = ["node-a", "node-b", "node-c"]
LABELS = {"app": "ha"}
SPACING = 0.05  # seconds between two requests of a probe
RESTART_AFTER = 0.5  # as systemd with Restart=always
ELECTED = ("controller-manager", "scheduler")
Object = dict[str, Any]


@dataclass
class Seen:
    """Everything that is judged."""

    probes: list[Probe] = field(default_factory=list)
    pods: Pods = field(default_factory=Pods)
    kills: Counter[str] = field(default_factory=Counter)
    killed_at: list[tuple[float, str]] = field(default_factory=list)
    failovers: list[tuple[str, float]] = field(default_factory=list)
    changes: list[tuple[str, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    stories: list[tuple[float, list[str]]] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    stalled: float = 0.0  # the longest that this very process was not given a processor


class Prober:
    """One kind of request after another, over connections as a client keeps them."""

    def __init__(self, plane: Plane, probe: Probe, send: Callable[["Prober"], Awaitable[int]]) -> None:
        self.plane, self.probe, self._send = plane, probe, send
        self.tls = ssl.create_default_context(cafile=str(plane.ca))
        self.headers = {"Authorization": f"Bearer {plane.token}"}
        self.count = 0

    async def run(self) -> None:
        limits = aiohttp.ClientTimeout(total=1.0)
        async with aiohttp.ClientSession(timeout=limits, headers=self.headers) as self.session:
            while True:
                try:
                    status = await self._send(self)
                    if status < 300:
                        self.probe.good.append(time.monotonic())
                    else:
                        self.probe.bad.append((time.monotonic(), str(status)))
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    self.probe.bad.append((time.monotonic(), type(error).__name__))
                await asyncio.sleep(SPACING)

    async def read(self) -> int:
        url = f"{self.plane.url}/api/v1/namespaces/default/configmaps/probe"
        async with self.session.get(url, ssl=self.tls) as answer:
            await answer.read()
            return answer.status

    async def write(self) -> int:
        self.count += 1
        body = json.dumps({"data": {"n": str(self.count)}})
        headers = {"Content-Type": "application/merge-patch+json"}
        url = f"{self.plane.url}/api/v1/namespaces/default/configmaps/probe"
        async with self.session.patch(url, data=body, headers=headers, ssl=self.tls) as answer:
            await answer.read()
            return answer.status


class Trial:
    def __init__(self, plane: Plane, client: Client, choose: random.Random, spacing: float) -> None:
        self._plane, self._client, self._choose, self._spacing = plane, client, choose, spacing
        self.seen = Seen()
        self._bounds = Bounds([8])
        self._reviving: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> Seen:
        seen = self.seen
        async with asyncio.TaskGroup() as background:
            tasks = [background.create_task(Kubelets(self._client, NODES).run())]
            await self._prepare()
            tasks.append(background.create_task(self._watch_pods()))
            tasks.append(background.create_task(self._notice_stalls()))
            for name, send in (("read", Prober.read), ("write", Prober.write)):
                probe = Probe(name)
                seen.probes.append(probe)
                tasks.append(background.create_task(Prober(self._plane, probe, send).run()))
            await asyncio.sleep(1)
            seen.began = time.monotonic()
            async with asyncio.TaskGroup() as trouble:
                stop = asyncio.Event()
                trouble.create_task(self._kill_in_turn(stop))
                trouble.create_task(self._change_the_deployment(stop))
                await asyncio.sleep(seconds)
                stop.set()
            seen.ended = time.monotonic()
            await self._settle()
            for task in tasks:
                task.cancel()
        return seen

    async def _prepare(self) -> None:
        metadata = {"name": "probe", "namespace": "default"}
        await self._persist(lambda: self._client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"n": "0"}}))
        template = {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "c", "image": "none:1"}], "terminationGracePeriodSeconds": 1},
        }
        spec = {"replicas": 8, "selector": {"matchLabels": LABELS}, "template": template}
        metadata = {"name": "ha", "namespace": "default"}
        await self._persist(lambda: self._client.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec}))
        await self._until_right(60)

    async def _watch_pods(self) -> None:
        factory = InformerFactory(self._client)
        pods = factory.informer(PODS, namespace="default", label_selector="app=ha")
        seen = self.seen.pods

        def look(pod: Object) -> None:
            seen.seen(pod)
            self._check_bounds()

        def gone(pod: Object) -> None:
            seen.gone(pod)
            self._check_bounds()

        pods.add_handler(on_add=look, on_update=lambda old, new: look(new), on_delete=gone)
        await factory.run()

    async def _notice_stalls(self) -> None:
        """A machine that is too busy for the measurement shows here."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(SPACING)
            self.seen.stalled = max(self.seen.stalled, time.monotonic() - before - SPACING)

    def _check_bounds(self) -> None:
        pods, bounds = self.seen.pods, self._bounds
        if not self.seen.began:
            return
        pods.most, pods.least_ready = max(pods.most, len(pods.wanted)), min(pods.least_ready, pods.ready)
        faults = []
        if len(pods.wanted) > bounds.most:
            faults.append(f"{len(pods.wanted)} pods where {bounds.most} are allowed ({bounds})")
        if pods.ready < bounds.least_ready:
            faults.append(f"{pods.ready} ready pods where {bounds.least_ready} are needed ({bounds})")
        if faults:
            self.seen.faults += faults
            self.seen.stories.append((time.monotonic() - self.seen.began, list(pods.story)))

    # ------------------------------------------------------------------ trouble

    async def _kill_in_turn(self, stop: asyncio.Event) -> None:
        order = [f"{kind}-{number}" for number in range(3) for kind in ("etcd", "apiserver", *ELECTED)]
        order = [name for name in order if name in self._plane.parts]
        async with asyncio.TaskGroup() as tasks:
            while True:
                for name in order:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._spacing):
                            await stop.wait()
                        return
                    tasks.create_task(self._kill(name))

    async def _kill(self, name: str) -> None:
        part = self._plane.part(name)
        kind = name.rpartition("-")[0]
        was = leader_by_log(part) if isinstance(part, Daemon) and kind in ELECTED else ""
        await asyncio.to_thread(part.kill)
        self.seen.kills[kind] += 1
        now = time.monotonic()
        self.seen.killed_at.append((now, name))
        self.seen.pods.story.append(f"--- {name} was killed")
        await asyncio.sleep(RESTART_AFTER)
        await asyncio.to_thread(part.start)
        if was and (took := await self._failover(kind, was, now)) is not None:
            self.seen.failovers.append((name, took))

    async def _failover(self, kind: str, was: str, since: float) -> float | None:
        """Seconds until somebody else leads; None when ``was`` did not lead any more."""
        lease = f"kube-{kind}"
        first = True
        while time.monotonic() < since + 60:
            with contextlib.suppress(StatusError, ConnectionError):
                held = await self._client.get(LEASES, lease, "kube-system")
                holder = held["spec"].get("holderIdentity") or ""
                if first and holder not in (was, ""):
                    # it was taken over within the restart, or it had been lost before
                    return None if _seconds_since(held["spec"]["acquireTime"]) > time.monotonic() - since else 0.5
                if holder not in (was, ""):
                    return time.monotonic() - since
                first = False
            await asyncio.sleep(0.1)
        return 60.0

    async def _change_the_deployment(self, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            kind = ("scale", "roll", "rob")[number % 3]
            began = time.monotonic()
            self.seen.pods.story.append(f"--- {kind}")
            await getattr(self, f"_{kind}")(number)
            await self._until_right(judge.CONVERGE_SECONDS * 2)
            took = time.monotonic() - began
            self.seen.changes.append((kind, took))
            if took > judge.CONVERGE_SECONDS:
                self.seen.faults.append(f"{kind}: the Deployment was right only after {took:.1f} s")
            await self._until_seen()
            self._bounds = Bounds([self._bounds.replicas[0]])
            await asyncio.sleep(1)

    async def _until_seen(self) -> None:
        """The watch of pods may be behind the list that said that all is right: its connection may just have died."""
        pods = self.seen.pods
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(StatusError, ConnectionError):
                listed = (await self._client.list(PODS, "default", label_selector="app=ha"))["items"]
                if pods.alive.keys() == {pod["metadata"]["uid"] for pod in listed} and pods.ready == len(listed):
                    return
            await asyncio.sleep(0.1)
        self.seen.faults.append("the watch of pods does not come to where a list is")

    async def _scale(self, number: int) -> None:
        replicas = self._choose.choice([each for each in (6, 8, 10) if each != self._bounds.replicas[0]])
        self._bounds = Bounds([replicas, *self._bounds.replicas])
        await self._persist(lambda: self._client.patch(DEPLOYMENTS, "ha", {"spec": {"replicas": replicas}}, namespace="default"))

    async def _roll(self, number: int) -> None:
        template = {"metadata": {"annotations": {"round": str(number)}}}
        await self._persist(lambda: self._client.patch(DEPLOYMENTS, "ha", {"spec": {"template": template}}, namespace="default"))

    async def _rob(self, number: int) -> None:
        self._bounds = Bounds(self._bounds.replicas, deleted=1)
        name = self._choose.choice(self.seen.pods.wanted)["metadata"]["name"]
        await self._persist(lambda: self._client.delete(PODS, name, "default"))

    async def _until_right(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        wrong = ["nothing was answered"]
        while True:
            with contextlib.suppress(StatusError, ConnectionError):
                if not (wrong := await self._faults_now()):
                    return
            if time.monotonic() > deadline:
                self.seen.faults.append(f"after {seconds:.0f} s: {'; '.join(wrong)}")
                return
            await asyncio.sleep(0.2)

    async def _faults_now(self) -> list[str]:
        deployment = await self._client.get(DEPLOYMENTS, "ha", "default")
        selector = "app=ha"
        replicasets = (await self._client.list(REPLICA_SETS, "default", label_selector=selector))["items"]
        pods = (await self._client.list(PODS, "default", label_selector=selector))["items"]
        return judge.final_faults(deployment, replicasets, pods)

    async def _settle(self) -> None:
        await asyncio.sleep(1)
        await self._until_right(judge.CONVERGE_SECONDS)
        held = sorted(pod["metadata"]["uid"] for pod in self.seen.pods.alive.values())
        listed = (await self._client.list(PODS, "default", label_selector="app=ha"))["items"]
        if held != sorted(pod["metadata"]["uid"] for pod in listed):
            self.seen.faults.append("the watch of pods tells another end than a list")

    async def _persist(self, call: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await call()
                return
            except StatusError as error:
                if error.code in (404, 409):  # it was done, though the answer was lost
                    return
                if error.code < 500:
                    raise
            except ConnectionError:
                pass
            await asyncio.sleep(0.1)


def leader_by_log(part: Daemon) -> str:
    """The identity under which the process says to lead; empty when it does not."""
    said = [line for line in part.log.splitlines() if '"Became leader"' in line]
    return said[-1].partition('identity="')[2].partition('"')[0] if said else ""


def _seconds_since(stamp: str) -> float:
    return (datetime.now(UTC) - parse_time(stamp)).total_seconds()


def verdict(seen: Seen) -> tuple[bool, list[str]]:
    """Whether every promise was kept, and the lines that say so."""
    load = os.getloadavg()[1]
    lines = [
        f"killed {sum(seen.kills.values())} times in {seen.ended - seen.began:.0f} s: {dict(seen.kills)}; load average "
        f"{load:.1f} on {os.cpu_count()} processors, longest stall of the measurement itself {seen.stalled:.2f} s"
    ]
    wrong = list(dict.fromkeys([*seen.faults, *seen.pods.wrong]))
    for probe in seen.probes:
        gap, when = probe.longest_gap(seen.ended)
        blamed = next((name for at, name in reversed(seen.killed_at) if at <= when + 0.1), "nothing")
        lines.append(
            f"{probe.name}: {len(probe.good)} good answers, {len(probe.bad)} bad ({dict(Counter(why for _, why in probe.bad))}), "
            f"longest time without a good one {gap:.2f} s (after {blamed} was killed), 99 % under {probe.quantile(0.99):.2f} s"
        )
        if gap > judge.UNAVAILABLE_SECONDS:
            wrong.append(f"{probe.name}: no good answer for {gap:.2f} s")
    times = [took for _, took in seen.failovers]
    lines.append(f"leaders: {len(times)} killed, another one after {max(times, default=0):.1f} s at most")
    wrong += [f"{name}: another leader only after {took:.1f} s" for name, took in seen.failovers if took > judge.FAILOVER_SECONDS]
    slow = {kind: max(took for each, took in seen.changes if each == kind) for kind, _ in seen.changes}
    shown = ", ".join(f"{kind} {took:.1f} s" for kind, took in slow.items())
    lines.append(f"Deployment: {len(seen.changes)} changes, right again after at most {shown}")
    lines += [f"BROKEN: {each}" for each in wrong]
    for when, story in seen.stories[:3]:
        lines += [f"before a fault, at {when:.1f} s:", *(f"  {each}" for each in story)]
    return not wrong, lines


async def trial(folder: Path, seconds: float, spacing: float, seed: int) -> Seen:
    """One run, on machines of its own."""
    with machines(3) as found, control_plane(folder, found) as plane:
        async with Client(kubeconfig.load(plane.kubeconfig), component="ha") as client:
            return await Trial(plane, client, random.Random(seed), spacing).run(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--spacing", type=float, default=5, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for logs and data, kept")
    options = parser.parse_args()
    # three members of etcd on one disk would measure that disk
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="pyb-ha-", dir=memory) as folder:
        where = options.keep or Path(folder) / "ha"
        seen = asyncio.run(trial(where, options.minutes * 60, options.spacing, options.seed))
    good, lines = verdict(seen)
    sys.stdout.write("\n".join([*lines, "good" if good else "BROKEN"]) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
