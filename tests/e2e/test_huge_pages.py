"""Huge pages from the node's capacity into a container, where the machine has some (`sysctl vm.nr_hugepages=4`: 8 MiB)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from apimachinery.resources import NODES
from tests.support.node import NODE_NAME, TestNode, container, phase_is, running_node

PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
ASKED = {"limits": {"hugepages-2Mi": "4Mi", "memory": "64Mi", "cpu": "100m"}}


def _free() -> int:
    file = PAGES / "free_hugepages"
    return int(file.read_text()) if file.exists() else 0


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(_free() < 2, reason="this machine has no free huge pages (`sysctl vm.nr_hugepages=4`)"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node() -> AsyncIterator[TestNode]:
    async with running_node() as running:
        yield running


async def test_they_are_capacity_and_no_memory(node: TestNode) -> None:
    status = (await node.client.get(NODES, NODE_NAME))["status"]
    assert status["capacity"]["hugepages-2Mi"] == status["allocatable"]["hugepages-2Mi"] != "0"


async def test_a_volume_of_them(node: TestNode) -> None:
    """A file system of huge pages, in which files are as large as pages."""
    volume = {"name": "huge", "emptyDir": {"medium": "HugePages-2Mi"}}
    script = "truncate -s 2M /huge/file && grep ' /huge ' /proc/mounts > /dev/termination-log"
    main = container(script, resources=ASKED, volumeMounts=[{"name": "huge", "mountPath": "/huge"}])
    await node.create_pod("huge", containers=[main], volumes=[volume], restartPolicy="Never")

    ended = await node.wait_pod("huge", phase_is("Succeeded"))

    said = ended["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert "hugetlbfs" in said
    assert "pagesize=2M" in said


async def test_more_than_there_are(node: TestNode) -> None:
    much = {"limits": {"hugepages-2Mi": "4Gi", "memory": "64Mi", "cpu": "100m"}}
    await node.create_pod("much", script="true", container={"resources": much})
    refused = await node.wait_pod("much", phase_is("Failed"))
    assert refused["status"]["reason"] == "OutOfhugepages-2Mi"
