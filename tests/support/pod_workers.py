"""Pod workers over the in-memory containerd and virtual time: everything of the kubelet but sockets.

    async with running_workers(tmp_path) as bench:
        bench.apply(pod("web")); await bench.until(lambda: bench.runtime.running())

Time passes only by ``bench.clock.advance``. Volumes, cgroups and the API server are small fakes that record.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from apimachinery import errors as api_errors
from client.rest import Client
from component.clock import FakeClock
from component.metrics import Registry
from cri.fake import FakeContainerd
from node.kubelet.config import KubeletConfig
from node.kubelet.images.pull import ImagePuller
from node.kubelet.interface import Mount, Pod, VolumeStats
from node.kubelet.metrics import KubeletMetrics
from node.kubelet.pleg import Pleg
from node.kubelet.pod_manager import PodManager
from node.kubelet.pod_sync import Tools
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.probes.manager import ProbeManager
from node.kubelet.recorder import PodEvents
from node.kubelet.resize.allocations import Allocations
from node.kubelet.runtime.gate import Gate
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.manager import RuntimeManager
from node.kubelet.runtime.resources import Node
from node.kubelet.status import StatusManager

IMAGE = "docker.io/library/busybox:1.35"


@dataclass
class Volumes:
    """Records; ``failure`` makes the next mounts fail."""

    mounted: list[str] = field(default_factory=list)
    unmounted: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    failure: Exception | None = None

    async def mount(self, pod: Pod, pod_dir: Path) -> Mapping[str, Mount]:
        if self.failure:
            raise self.failure
        self.mounted.append(pod["metadata"]["name"])
        return {volume["name"]: Mount(pod_dir / "volumes" / volume["name"]) for volume in pod["spec"].get("volumes") or ()}

    async def sub_path(self, mount: Mount, path: str, pod_dir: Path, volume: str, container: str, index: int) -> Path:
        return mount.host_path / path

    async def read_file(self, mount: Mount, path: str) -> bytes | None:
        return None

    async def refresh(self, pod: Pod) -> None:
        self.refreshed.append(pod["metadata"]["name"])

    async def unmount(self, uid: str, pod_dir: Path) -> None:
        self.unmounted.append(uid)

    async def stats(self, pod: Pod) -> list[VolumeStats]:
        return []

    async def sweep(self) -> None: ...


@dataclass
class Cgroups:
    removed: list[str] = field(default_factory=list)

    async def ensure(self, pod: Mapping[str, Any]) -> str:
        return f"/kubepods/pod{pod['metadata']['uid']}"

    async def remove(self, uid: str) -> None:
        self.removed.append(uid)

    async def weigh(self, taken: Sequence[Mapping[str, Any]]) -> None:
        return

    async def present(self) -> Sequence[str]:
        return ()


@dataclass
class Objects:
    """configMaps and secrets by (namespace, name)."""

    config_maps: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    secrets: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    handlers: dict[str, str] = field(default_factory=dict)  # by runtime class

    async def config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        if (namespace, name) not in self.config_maps:
            raise api_errors.not_found("configmaps", name)
        return self.config_maps[namespace, name]

    async def secret(self, namespace: str, name: str) -> Mapping[str, Any]:
        if (namespace, name) not in self.secrets:
            raise api_errors.not_found("secrets", name)
        return self.secrets[namespace, name]

    async def runtime_class(self, name: str) -> Mapping[str, Any]:
        if name not in self.handlers:
            raise api_errors.not_found("runtimeclasses.node.k8s.io", name)
        return {"metadata": {"name": name}, "handler": self.handlers[name]}

    async def service_account_token(self, namespace: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"status": {"token": "t"}}


@dataclass
class Api:
    """The two calls of the status manager, recorded; statuses are merged naively into ``pods`` by name."""

    patches: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    async def patch(
        self, gvr: Any, name: str, body: dict[str, Any], kind: Any, namespace: str, *, subresource: str
    ) -> dict[str, Any]:
        self.patches.append((name, body["status"]))
        return {"status": body["status"]}

    async def delete(
        self, gvr: Any, name: str, namespace: str, *, grace: int, preconditions: Mapping[str, str]
    ) -> dict[str, Any]:
        assert grace == 0
        self.deleted.append(preconditions["uid"])
        return {}


@dataclass
class EventList:
    seen: list[tuple[str, str]] = field(default_factory=list)

    def event(self, regarding: dict[str, Any], type: str, reason: str, note: str, action: str = "", related: Any = None) -> None:  # noqa: A002
        self.seen.append((reason, note))

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.seen]


@dataclass
class Bench:
    """What a test sees."""

    clock: FakeClock
    runtime: FakeContainerd
    volumes: Volumes
    cgroups: Cgroups
    objects: Objects
    api: Api
    events: EventList
    tools: Tools
    workers: PodWorkers
    manager: PodManager
    pleg: Pleg
    registry: Registry
    network_problem: str = ""
    services: list[dict[str, Any]] = field(default_factory=list)

    def apply(self, pod: dict[str, Any]) -> None:
        self.manager.update(pod)

    def delete(self, pod: dict[str, Any], grace: int = 30) -> dict[str, Any]:
        """The API server's first half of a graceful deletion."""
        metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": grace}
        ending = {**pod, "metadata": metadata}
        self.manager.update(ending)
        return ending

    def status(self, pod: dict[str, Any]) -> dict[str, Any]:
        return dict(self.tools.status.get(pod["metadata"]["uid"]) or {})

    def state(self, pod: dict[str, Any], container: str = "main") -> dict[str, Any]:
        listed = [*self.status(pod).get("initContainerStatuses", []), *self.status(pod).get("containerStatuses", [])]
        return next((each["state"] for each in listed if each["name"] == container), {})

    async def until(self, wanted: Callable[[], object], what: str = "") -> None:
        """Let tasks and threads run, without time passing, until something is so."""
        for _ in range(1500):
            if wanted():
                return
            await asyncio.sleep(0.001)
        raise AssertionError(what or "it did not happen")

    async def settle(self) -> None:
        """Let everything that can happen now happen."""
        for _ in range(15):
            await asyncio.sleep(0.002)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()

    async def advance_until(self, wanted: Callable[[], object], seconds: float = 60) -> None:
        """Let time pass in small steps until something is so."""
        for _ in range(int(seconds * 4)):
            if wanted():
                return
            await self.advance(0.25)
        raise AssertionError(f"it did not happen in {seconds:g} s")

    async def relist(self) -> None:
        await self.pleg.relist()
        await self.settle()


def pod(name: str = "web", *, containers: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod as the API server would give it, of one container ``main`` unless told otherwise."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    made = {"containers": containers or [container()], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made, "status": {"phase": "Pending"}}


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", **more}


@asynccontextmanager
async def running_workers(root: Path, runtime: FakeContainerd | None = None) -> AsyncIterator[Bench]:
    """``runtime`` lets a second kubelet find what the first left."""
    clock = cast("FakeClock", runtime.clock) if runtime else FakeClock()
    runtime = runtime or FakeContainerd(clock=clock)
    runtime.add_image(IMAGE)
    volumes, cgroups, objects, api, seen = Volumes(), Cgroups(), Objects(), Api(), EventList()
    events, status = PodEvents(seen), StatusManager(cast("Client", api), clock)
    config = KubeletConfig(
        node_name="node-1", root_dir=root / "kubelet", pod_logs_dir=root / "logs", cluster_domain="cluster.local"
    )
    services: list[dict[str, Any]] = []
    registry = Registry(process=False)
    host = Host(
        config, runtime, ImagePuller(runtime, objects, events, clock), volumes, objects, cgroups, events, clock, Gate(4),
        KubeletMetrics(registry),
        services=lambda: services, limits=Node(memory=8 << 30), node_ips=lambda: ("192.0.2.1",),
    )  # fmt: skip

    async def run(container_id: str, command: Any, timeout: float) -> tuple[int, bytes]:
        result = await runtime.exec_sync(container_id, command, timeout)
        return result.exit_code, result.stdout

    async with asyncio.TaskGroup() as group:
        probes = ProbeManager(group, run, clock, events, lambda uid: workers.nudge(uid), lambda: "192.0.2.1")
        pleg = Pleg(runtime, clock, lambda uid: workers.nudge(uid))
        offered = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        allocations = Allocations(config.pod_dir, lambda: offered)
        manage = RuntimeManager(host, probes.ended)
        tools = Tools(host, pleg, manage, probes, status, lambda: bench.network_problem, allocations=allocations)
        workers = PodWorkers(tools)
        manager = PodManager(workers, status, events, lambda: offered, allocated=allocations.view)
        allocations.count_against(manager.taken)
        bench = Bench(
            clock, runtime, volumes, cgroups, objects, api, seen, tools, workers, manager, pleg, registry, services=services
        )
        tasks = [group.create_task(workers.run()), group.create_task(status.run())]
        await pleg.relist()
        await asyncio.sleep(0)  # the workers' group is open from now on
        try:
            yield bench
        finally:
            uids = workers.uids()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for uid in uids:  # only now: a worker that still ran might have begun another probe
                probes.remove(uid)
