"""The kubelet as a whole, on a real API server and the in-memory containerd, in virtual time: what it costs when nothing
happens, counted in calls rather than measured, and that nothing in it remembers a pod that is gone."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CellType, FunctionType, MethodType
from typing import Any

import pytest

from apimachinery.resources import PODS
from client import kubeconfig
from client.rest import Client
from client.transport import AioTransport, Request, Response
from component.clock import FakeClock
from component.metrics import Registry
from cri.fake import FakeContainerd
from node.kubelet import kubelet as kubelet_module
from node.kubelet.assembly import Given, Parts, assemble
from node.kubelet.config import KubeletConfig
from node.kubelet.kubelet import Kubelet
from node.kubelet.runtime import connection
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.node import NODE_NAME, is_ready
from tests.support.pod_workers import IMAGE, container

COUNT = 50
FOREIGN = (FakeContainerd, FakeClock, Client, Registry)
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 10}


@dataclass
class Link:
    """In the place of the gRPC connection."""

    runtime: FakeContainerd
    images: FakeContainerd = field(init=False)

    def __post_init__(self) -> None:
        self.images = self.runtime

    async def close(self) -> None:
        return


class Counted(AioTransport):
    """Notes method and path of every request."""

    def __init__(self, config: kubeconfig.Config, user_agent: str, asked: list[tuple[str, str]]) -> None:
        super().__init__(config, user_agent)
        self._asked = asked

    async def send(self, request: Request) -> Response:
        self._asked.append((request.method, request.path))
        return await super().send(request)


@dataclass
class Whole:
    """What a test sees. Time passes only by :meth:`pass_time`."""

    clock: FakeClock
    runtime: FakeContainerd
    server: TestServer
    client: Client
    kubelet: Kubelet
    task: asyncio.Task[None]
    parts: list[Parts]
    asked: list[tuple[str, str]]  # of the API server by this kubelet: method and path

    async def pass_time(self, seconds: int, step: int = 1) -> None:
        """In steps, with pauses in which sockets and threads get their turn."""
        for _ in range(0, seconds, step):
            await self.clock.advance(float(step))
            await asyncio.sleep(0.005)

    async def until(self, wanted: Any) -> None:
        for _ in range(300):
            if await wanted():
                return
            await self.pass_time(1)
        raise AssertionError("it did not happen")

    async def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.list(PODS, "default"))["items"]
        return found

    async def create(self, count: int) -> None:
        for number in range(count):
            spec = {
                "nodeName": NODE_NAME,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": [container(readinessProbe=PROBE, livenessProbe=PROBE)],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            }
            metadata = {"name": f"pod-{number}", "namespace": "default"}
            await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

        async def all_ready() -> bool:
            pods = await self.pods()
            return len(pods) == count and all(is_ready(pod) for pod in pods)

        await self.until(all_ready)


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Whole]:
    clock = FakeClock()
    runtime = FakeContainerd(clock=clock)
    runtime.add_image(IMAGE)
    monkeypatch.setattr(connection, "Connection", lambda *endpoints: Link(runtime))
    asked: list[tuple[str, str]] = []

    def connected(config: kubeconfig.Config, *, component: str, clock: FakeClock) -> Client:
        return Client(config, component=component, clock=clock, transport=Counted(config, component, asked))

    parts: list[Parts] = []

    def assembled(given: Given, group: asyncio.TaskGroup) -> Parts:
        parts.append(assemble(given, group))
        return parts[0]

    monkeypatch.setattr(kubelet_module, "Client", connected)
    monkeypatch.setattr(kubelet_module, "assemble", assembled)
    async with running_apiserver() as server, Client(kubeconfig.load(server.kubeconfig), component="test") as client:
        await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        config = KubeletConfig(
            node_name=NODE_NAME,
            address="127.0.0.1",
            port=0,
            healthz_port=0,
            root_dir=tmp_path / "kubelet",
            pod_logs_dir=tmp_path / "logs",
            node_ip="127.0.0.1",
            pod_cidr="10.244.1.0/24",
            cni_conf_dir=tmp_path / "cni",
            cni_bridge="",
            cgroups_per_qos=False,
            enforce_node_allocatable=(),
            client_ca_file=server.ca_file,
        )
        kubelet = Kubelet(config, kubeconfig.load(server.kubeconfig_for("node-token")), clock)
        task = asyncio.create_task(kubelet.run())
        made = Whole(clock, runtime, server, client, kubelet, task, parts, asked)

        async def ready() -> bool:
            assert not task.done(), task.exception()
            return kubelet.ready.is_set()

        await made.until(ready)
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_an_idle_minute_costs_a_bounded_number_of_calls(whole: Whole) -> None:
    """With 50 pods and two probes each: two lists a second whatever the number of pods, and no question about one of them;
    to the API server nothing but the node's own news."""
    await whole.create(COUNT)
    await whole.pass_time(70)
    whole.runtime.calls.clear()
    whole.asked.clear()

    await whole.pass_time(60)

    calls = Counter(method for method, _ in whole.runtime.calls)
    assert calls.pop("list_pod_sandboxes") in range(55, 66)
    assert calls.pop("list_containers") in range(55, 66)
    assert calls.pop("exec_sync") in range(COUNT * 2 * 5, COUNT * 2 * 7 + 1), "the probes"
    assert set(calls) <= {"status", "list_images"}, "the node's own news"
    assert sum(calls.values()) <= 14
    assert len(whole.asked) <= 12, whole.asked
    assert not [path for _, path in whole.asked if "/pods" in path]


async def test_nothing_remembers_a_pod_that_is_gone(whole: Whole) -> None:
    """No part of the kubelet holds so much as a gone pod's name, and no task is left: it can run for years."""
    await whole.pass_time(30)
    tasks = own_tasks()
    await whole.create(5)
    marks = {pod["metadata"]["uid"] for pod in await whole.pods()}
    assert traces(whole.parts, marks), "the search finds them while they are there"

    for pod in await whole.pods():
        await whole.server.request("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")

    async def gone() -> bool:
        return not await whole.pods()

    await whole.until(gone)
    await whole.pass_time(700, step=10)  # the longest back-off, twice
    assert own_tasks() == tasks
    await whole.create(1)  # old news is let go as new news comes
    assert traces(whole.parts, marks) == []


def own_tasks() -> list[str]:
    """Those of the kubelet among all, the API server's included; by name."""
    node = str(Path(kubelet_module.__file__).parents[1])
    coroutines = [(task.get_name(), getattr(task.get_coro(), "cr_code", None)) for task in asyncio.all_tasks()]
    return sorted(name for name, code in coroutines if code is not None and code.co_filename.startswith(node))


def traces(root: object, marks: set[str]) -> list[str]:
    """Where in what is reachable from ``root`` a string holds one of ``marks``: the ways to it. Runtime, clock, connections
    and loops are not looked into: they are not the kubelet's."""
    found, seen, todo = [], {id(root)}, [(root, "")]
    while todo:
        each, way = todo.pop()
        if isinstance(each, str):
            if any(mark in each for mark in marks):
                found.append(way)
            continue
        for name, inner in _inside(each):
            if id(inner) not in seen or isinstance(inner, str):
                seen.add(id(inner))
                todo.append((inner, f"{way}.{name}"))
    return found


def _inside(each: object) -> list[tuple[str, object]]:
    if isinstance(each, Mapping):
        return [("key", key) for key in each] + [(str(key), value) for key, value in each.items()]
    if isinstance(each, list | tuple | set | frozenset | deque):
        return [("item", item) for item in each]
    if isinstance(each, partial):
        return [("call", each.func), ("args", each.args), ("kwargs", each.keywords)]
    if isinstance(each, MethodType):
        return [("self", each.__self__)]
    if isinstance(each, FunctionType):
        return [("cell", cell.cell_contents) for cell in each.__closure__ or () if cell != CellType()]
    if isinstance(each, FOREIGN) or type(each).__module__.partition(".")[0] not in ("node", "client", "cri", "component"):
        return []
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    named = {name: getattr(each, name) for name in slots if hasattr(each, name)}
    return [(f"{type(each).__name__}.{name}", value) for name, value in {**named, **getattr(each, "__dict__", {})}.items()]
