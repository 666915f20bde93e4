"""Who may swap, and how far: what the kernel is told of each container, which only cgroup v2 can (`make vm VM="--swap 512M"`)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import NODES
from node.kubelet import machine
from node.kubelet.cgroups.manager import MOUNT
from tests.support.node import NODE_NAME, TestNode, is_ready, running_node

MACHINE = machine.read_machine(Path("/"))

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        MACHINE.cgroup_version == 1 or not MACHINE.swap_controller or not MACHINE.swap_bytes,
        reason='this machine has no swap, or cgroup v1 (`make vm VM="--swap 512M"`)',
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["LimitedSwap", "NoSwap"])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[TestNode]:
    async with running_node(swap_behavior=request.param) as running:
        yield running


async def allowed(node: TestNode, name: str, resources: dict[str, Any]) -> str:
    """The kernel's bound of the container's swap."""
    made = await node.create_pod(name, script="exec sleep 1000", container={"resources": resources})
    pod = await node.wait_pod(name, is_ready, 60)
    identity = pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
    found = list((MOUNT / node.config.cgroup_root.strip("/")).rglob(f"*{identity}*/memory.swap.max"))
    assert found, made["metadata"]["uid"]
    return found[0].read_text().strip()


async def test_how_far_containers_may_swap(node: TestNode) -> None:
    page, asked = 4096, 64 << 20
    share = int(asked / MACHINE.memory_bytes * MACHINE.swap_bytes) // page * page
    expected = str(share if node.config.swap_behavior == "LimitedSwap" else 0)
    whole = {"memory": "64Mi", "cpu": "100m"}

    assert await allowed(node, "burstable", {"requests": {"memory": "64Mi"}, "limits": {"memory": "256Mi"}}) == expected
    assert await allowed(node, "guaranteed", {"requests": whole, "limits": whole}) == "0"
    assert await allowed(node, "best-effort", {}) == "0"
    shown = await node.client.get(NODES, NODE_NAME)
    assert shown["status"]["nodeInfo"]["swap"] == {"capacity": MACHINE.swap_bytes}
