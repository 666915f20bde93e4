"""The machine is about to stop: pods on real containers end in order, and the node takes no more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from apimachinery.meta import get_condition
from apimachinery.resources import NODES
from tests.support.logind import Logind, running_logind
from tests.support.node import NODE_NAME, TestNode, container, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Logind, TestNode]]:
    folder: Path = tmp_path_factory.mktemp("bus")
    with pytest.MonkeyPatch.context() as patch:
        async with running_logind(folder) as logind:
            patch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
            async with running_node(shutdown_grace_period=20.0, shutdown_grace_period_critical_pods=5.0) as node:
                yield logind, node


async def test_pods_end_before_the_machine_does(machine: tuple[Logind, TestNode]) -> None:
    logind, node = machine
    assert logind.locked()
    script = "trap 'sleep 1; echo told; exit 0' TERM; while true; do sleep 0.1; done"
    await node.create_pod("polite", containers=[container(script)], terminationGracePeriodSeconds=10)
    await node.wait_pod("polite", is_ready)

    logind.announce(True)
    ended = await node.wait_pod("polite", phase_is("Failed"))
    assert ended["status"]["reason"] == "Terminated"
    assert ended["status"]["message"] == "Pod was terminated in response to imminent node shutdown."
    disrupted = get_condition(ended, "DisruptionTarget")
    assert disrupted is not None
    assert disrupted["reason"] == "TerminationByKubelet"
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0, "it had its time"

    await node.create_pod("late", containers=[container("exec sleep 1000")])
    refused = await node.wait_pod("late", phase_is("Failed"))
    assert (refused["status"]["reason"], refused["status"]["message"]) == (
        "NodeShutdown",
        "Pod was rejected as the node is shutting down.",
    )
    await _node_says(node, "False", "node is shutting down")
    async with asyncio.timeout(5):
        while logind.locked():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    logind.announce(False)
    await _node_says(node, "True", "kubelet is posting ready status")
    await node.create_pod("again", containers=[container("exec sleep 1000")])
    await node.wait_pod("again", is_ready)


async def _node_says(node: TestNode, status: str, message: str) -> None:
    async with asyncio.timeout(5):
        while True:
            ready = get_condition(await node.client.get(NODES, NODE_NAME), "Ready")
            if ready is not None and (ready["status"], ready["message"]) == (status, message):
                return
            await asyncio.sleep(0.05)
