"""Eviction on real containers: who takes more than the node or its own limits allow is ended, and reads as upstream's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.meta import get_condition
from apimachinery.resources import NODES
from component.clock import RealClock
from component.metrics import Registry
from cri.channel import Channel
from cri.images import GrpcImages
from cri.runtime import GrpcRuntime
from node.kubelet import machine
from node.kubelet.eviction import manager
from node.kubelet.images.gc import ImageCollector, Policy
from node.kubelet.runtime import connection
from tests.support.node import NODE_NAME, TestNode, container, is_ready, phase_is, running_node
from tests.support.pod_workers import EventList

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

POD_MEMORY = 320 << 20  # what all pods together may use; 100Mi of it eviction keeps free
_FILL = "dd if=/dev/zero of={to} bs=1M count={megabytes} 2>/dev/null; exec sleep 1000"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[TestNode]:
    total = machine.read_machine(Path("/")).memory_bytes
    reserved = {"memory": f"{(total - POD_MEMORY) // 1024}Ki"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager, "PERIOD", 1.0)  # upstream's ten seconds would be waited for many times here
        async with running_node(
            system_reserved=reserved,
            eviction_hard={"memory.available": "100Mi"},
            eviction_pressure_transition_period=5.0,
            node_status_update_frequency=0.5,
        ) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()


def _filling(to: str, megabytes: int, **more: Any) -> dict[str, Any]:
    return container(_FILL.format(to=to, megabytes=megabytes), **more)


def _scratch(**settings: Any) -> dict[str, Any]:
    mount = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    return {"mount": mount, "volumes": [{"name": "scratch", "emptyDir": settings}]}


async def _pressure(node: TestNode, status: str, seconds: float = 40) -> None:
    async with asyncio.timeout(seconds):
        while True:
            condition = get_condition(await node.client.get(NODES, NODE_NAME), "MemoryPressure")
            if condition is not None and condition["status"] == status:
                return
            await asyncio.sleep(0.1)


async def test_limits_on_local_disk_are_kept(node: TestNode) -> None:
    scratch = _scratch(sizeLimit="1Mi")
    await node.create_pod("volume", containers=[_filling("/scratch/x", 3, **scratch["mount"])], volumes=scratch["volumes"])
    await node.create_pod(
        "layer", containers=[_filling("/x", 3, resources={"limits": {"ephemeral-storage": "1Mi"}}), container("sleep 1000", "b")]
    )
    await node.create_pod("modest", containers=[_filling("/x", 1, resources={"limits": {"ephemeral-storage": "50Mi"}})])
    for name, message in (
        ("volume", 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '),
        ("layer", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
    ):
        evicted = await node.wait_pod(name, phase_is("Failed"), 40)
        assert (evicted["status"]["reason"], evicted["status"]["message"]) == ("Evicted", message)
        disrupted = get_condition(evicted, "DisruptionTarget")
        assert disrupted is not None
        assert (disrupted["status"], disrupted["reason"]) == ("True", "TerminationByKubelet")
        assert ("Evicted", message) in await node.events(name)
    await node.wait_pod("modest", is_ready)


async def test_memory_pressure_ends_the_greediest_and_passes(node: TestNode) -> None:
    memory = _scratch(medium="Memory")
    asked = {"requests": {"memory": "150Mi"}}
    await node.create_pod("modest", containers=[container("exec sleep 1000", resources=asked)])
    await node.wait_pod("modest", is_ready)
    greedy = _filling("/scratch/x", 260, **memory["mount"])
    await node.create_pod("greedy", containers=[greedy], volumes=memory["volumes"], terminationGracePeriodSeconds=30)

    evicted = await node.wait_pod("greedy", phase_is("Failed"), 60)
    assert evicted["status"]["reason"] == "Evicted"
    message = evicted["status"]["message"]
    assert message.startswith("The node was low on resource: memory. Threshold quantity: 100Mi, available: ")
    assert "Container main was using " in message
    assert "request is 0, has larger consumption of memory. " in message
    await _pressure(node, "True")
    # under pressure nothing comes in that asks for nothing
    await node.create_pod("late", containers=[container("exec sleep 1000")])
    refused = await node.wait_pod("late", phase_is("Failed"))
    assert refused["status"]["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
    await node.wait_pod("modest", is_ready)
    await _pressure(node, "False")
    await node.create_pod("later", containers=[container("exec sleep 1000")])
    await node.wait_pod("later", is_ready)


async def test_unused_images_go_and_used_ones_stay(node: TestNode) -> None:
    await node.create_pod("user", containers=[container("exec sleep 1000")])
    await node.wait_pod("user", is_ready)
    channel = Channel(node.containerd.endpoint)
    images, runtime = GrpcImages(channel), GrpcRuntime(channel)
    try:
        await asyncio.to_thread(node.containerd.import_image, "registry.test/unused:1")
        before = {tag for image in await images.list_images() for tag in image.repo_tags}

        async def kept() -> str:
            return await connection.sandbox_image(runtime)

        collector = ImageCollector(images, runtime, RealClock(), Policy(), EventList(), NODE_NAME, Registry(), kept)
        await collector.delete_unused()
        after = {tag for image in await images.list_images() for tag in image.repo_tags}
    finally:
        await channel.close()
    assert before - after == {"registry.test/unused:1"}
    assert collector.mountpoint is not None
    assert collector.mountpoint.exists()
