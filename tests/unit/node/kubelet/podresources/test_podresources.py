"""The pod resources API over its real socket: who has what, what there is, who is turned away."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.json_format import MessageToDict

from component.clock import FakeClock
from component.metrics import Registry
from node.kubelet.cm.device_manager import devices
from node.kubelet.cm.device_manager.devices import Given
from node.kubelet.cm.dra.state import ClaimInfo, Device
from node.kubelet.cm.memory_manager.state import Block
from node.kubelet.podresources.api import podresources_v1_pb2 as pb
from node.kubelet.podresources.api import podresources_v1_pb2_grpc as services
from node.kubelet.podresources.metrics import PodResourcesMetrics
from node.kubelet.podresources.rate_limit import RateLimit
from node.kubelet.podresources.server import PodResources, serve

GPU = "example.com/gpu"


class Devices:
    def given(self, uid: str, container: str) -> Mapping[str, Given]:
        held = {("u", "main"): Given({0: ("a", "b"), 1: ("b",)}), ("u", "side"): Given({-1: ("c",)})}
        return {GPU: held[uid, container]} if (uid, container) in held else {}

    def allocatable(self) -> Mapping[str, Mapping[str, devices.Device]]:
        return {GPU: {"a": devices.Device("a", nodes=(0,)), "c": devices.Device("c")}}


class Others:
    def exclusive_cpus(self, uid: str, container: str) -> Collection[int]:
        return {3, 2} if container == "main" else ()

    def allocatable_cpus(self) -> Collection[int]:
        return {1, 2, 3}

    def memory_of(self, uid: str, container: str) -> Sequence[Block]:
        return [Block([0, 1], "memory", 1 << 30)] if container == "main" else []

    def allocatable_memory(self) -> Sequence[Block]:
        return [Block([0], "hugepages-2Mi", 4 << 20)]


class Claims:
    def claims_of(self, pod: Mapping[str, Any], container: Mapping[str, Any]) -> Sequence[ClaimInfo]:
        drivers = {"gpu.example.com": [Device("pool", "gpu-1", cdi=("example.com/gpu=1",))]}
        return [ClaimInfo("c", "claim", "ns", drivers=drivers)] if container["name"] == "main" else []


SPEC = {
    "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}],
    "containers": [{"name": "main"}],
}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": SPEC}


@dataclass
class Served:
    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Registry = field(default_factory=lambda: Registry(process=False))

    def service(self, *, get: bool = True) -> PodResources:
        def find(namespace: str, name: str) -> Any:
            return POD if (namespace, name) == ("ns", "p") else None

        return PodResources(lambda: [POD], find, Devices(), Others(), PodResourcesMetrics(self.metrics), claims=Claims(), get=get)

    @asynccontextmanager
    async def running(self, *, get: bool = True) -> AsyncIterator[Any]:
        task = asyncio.create_task(serve(self.folder, self.service(get=get), self.clock))
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/kubelet.sock") as channel:
            await asyncio.wait_for(channel.channel_ready(), 5)
            yield services.PodResourcesListerStub(channel)  # type: ignore[no-untyped-call]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def count(self, name: str) -> float | None:
        return self.metrics.collectors.get_sample_value(f"kubelet_pod_resources_endpoint_{name}", {"server_api_version": "v1"})


@pytest.fixture
def served() -> Any:
    path = Path(tempfile.mkdtemp(prefix="pyb-pr-"))
    yield Served(path / "pod-resources")
    shutil.rmtree(path)


MAIN = {
    "name": "main",
    "devices": [
        {"resourceName": GPU, "deviceIds": ["a"], "topology": {"nodes": [{}]}},
        {"resourceName": GPU, "deviceIds": ["b"], "topology": {"nodes": [{}]}},
        {"resourceName": GPU, "deviceIds": ["b"], "topology": {"nodes": [{"ID": "1"}]}},
    ],
    "cpuIds": ["2", "3"],
    "memory": [{"memoryType": "memory", "size": "1073741824", "topology": {"nodes": [{}, {"ID": "1"}]}}],
    "dynamicResources": [
        {
            "claimName": "claim",
            "claimNamespace": "ns",
            "claimResources": [
                {
                    "cdiDevices": [{"name": "example.com/gpu=1"}],
                    "driverName": "gpu.example.com",
                    "poolName": "pool",
                    "deviceName": "gpu-1",
                }
            ],
        }
    ],
}
WHOLE = {
    "name": "p",
    "namespace": "ns",
    "containers": [{"name": "side", "devices": [{"resourceName": GPU, "deviceIds": ["c"]}]}, MAIN],
}


async def test_who_has_what(served: Served) -> None:
    async with served.running() as stub:
        listed = await stub.List(pb.ListPodResourcesRequest())
        assert MessageToDict(listed) == {"podResources": [WHOLE]}
        one = await stub.Get(pb.GetPodResourcesRequest(pod_namespace="ns", pod_name="p"))
        assert MessageToDict(one) == {"podResources": WHOLE}
    assert (served.count("requests_total"), served.count("requests_list"), served.count("requests_get")) == (2, 1, 1)


async def test_what_there_is(served: Served) -> None:
    async with served.running() as stub:
        found = await stub.GetAllocatableResources(pb.AllocatableResourcesRequest())
    assert MessageToDict(found) == {
        "devices": [
            {"resourceName": GPU, "deviceIds": ["a"], "topology": {"nodes": [{}]}},
            {"resourceName": GPU, "deviceIds": ["c"]},
        ],
        "cpuIds": ["1", "2", "3"],
        "memory": [{"memoryType": "hugepages-2Mi", "size": "4194304", "topology": {"nodes": [{}]}}],
    }
    assert served.count("requests_get_allocatable") == 1


@pytest.mark.parametrize(
    ("get", "told"), [(True, "pod gone in namespace ns not found"), (False, "PodResources API Get method disabled")]
)
async def test_get_that_fails(served: Served, get: bool, told: str) -> None:
    async with served.running(get=get) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Get(pb.GetPodResourcesRequest(pod_namespace="ns", pod_name="gone"))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, told)
    assert served.count("errors_get") == 1


async def test_too_many_calls(served: Served) -> None:
    async with served.running() as stub:
        for _ in range(10):
            await stub.List(pb.ListPodResourcesRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.List(pb.ListPodResourcesRequest())
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        assert served.count("requests_total") == 10
        await served.clock.advance(0.01)
        await stub.List(pb.ListPodResourcesRequest())


async def test_a_socket_that_was_removed(served: Served) -> None:
    task = asyncio.create_task(serve(served.folder, served.service(), served.clock))
    async with asyncio.timeout(5):
        while not (served.folder / "kubelet.sock").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (served.folder / "kubelet.sock").unlink()
        while not task.done():
            await served.clock.advance(10)
    with pytest.raises(FileNotFoundError):
        await task


def test_rate_limit() -> None:
    clock = FakeClock()
    limit = RateLimit(clock, qps=2, burst=3)
    assert [limit.allow() for _ in range(4)] == [True, True, True, False]
    asyncio.run(clock.advance(0.5))
    assert [limit.allow() for _ in range(2)] == [True, False]
    asyncio.run(clock.advance(60))
    assert [limit.allow() for _ in range(4)] == [True, True, True, False]
