"""What a pod may ask of its node beyond the ordinary, on real containers: rules for restarts, variables out of files."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.node import TestNode, container, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[TestNode]:
    async with running_node() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()


def _rule(action: str, code: int) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": action, "exitCodes": {"operator": "In", "values": [code]}}],
    }


def _scratch() -> dict[str, Any]:
    return {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}


SCRATCH = [{"name": "scratch", "emptyDir": {}}]


def _counts(pod: dict[str, Any]) -> dict[str, int]:
    status = pod["status"]
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {each["name"]: each["restartCount"] for each in listed}


def _all_run(pod: dict[str, Any]) -> bool:
    return all("running" in each["state"] for each in pod["status"]["containerStatuses"])


async def test_a_rule_restarts_one_container(node: TestNode) -> None:
    script = "test -e /scratch/ran && exit 0; touch /scratch/ran; exit 42"
    ruled = container(script, **_rule("Restart", 42), **_scratch())
    await node.create_pod("ruled", containers=[ruled], volumes=SCRATCH, restartPolicy="Never")
    ended = await node.wait_pod("ruled", phase_is("Succeeded"))
    assert _counts(ended) == {"main": 1}
    await node.create_pod("unruled", containers=[container("exit 7", **_rule("Restart", 42))])
    ended = await node.wait_pod("unruled", phase_is("Failed"))
    assert _counts(ended) == {"main": 0}


async def test_a_rule_restarts_all_containers(node: TestNode) -> None:
    first = container("echo x >> /scratch/inits", "first", **_scratch())
    script = "test $(wc -l < /scratch/inits) -gt 1 && exec sleep 1000; exit 42"
    ruled = container(script, **_rule("RestartAllContainers", 42), **_scratch())
    other = container("exec sleep 1000", "other")
    seen = await node.create_pod(
        "anew", initContainers=[first], containers=[ruled, other], volumes=SCRATCH, restartPolicy="Never",
        terminationGracePeriodSeconds=1,
    )  # fmt: skip
    await node.wait_pod("anew", lambda pod: _counts(pod) == {"first": 1, "main": 1, "other": 1}, 20)
    again = await node.wait_pod(
        "anew", lambda pod: all("running" in each["state"] for each in pod["status"]["containerStatuses"])
    )
    assert again["metadata"]["uid"] == seen["metadata"]["uid"]
    conditions = {each["type"]: each["status"] for each in again["status"]["conditions"]}
    assert conditions["AllContainersRestarting"] == "False"
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 42
    assert again["status"]["phase"] == "Running"


async def test_a_variable_comes_out_of_a_file_that_another_container_wrote(node: TestNode) -> None:
    writer = container("echo \"GREETING='hello world'\" > /scratch/vars", "writer", **_scratch())
    reference = {"volumeName": "scratch", "path": "vars", "key": "GREETING"}
    reader = container("echo -n $A > /dev/termination-log", env=[{"name": "A", "valueFrom": {"fileKeyRef": reference}}])
    lost = container("true", "lost", env=[{"name": "A", "valueFrom": {"fileKeyRef": {**reference, "key": "NONE"}}}])
    await node.create_pod("reads", initContainers=[writer], containers=[reader], volumes=SCRATCH, restartPolicy="Never")
    ended = await node.wait_pod("reads", phase_is("Succeeded"))
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "hello world"
    await node.create_pod("lost", initContainers=[writer], containers=[lost], volumes=SCRATCH, restartPolicy="Never")

    def refused(pod: dict[str, Any]) -> bool:
        listed = pod["status"].get("containerStatuses") or [{"state": {}}]
        return listed[0]["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"

    pod = await node.wait_pod("lost", refused)
    message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message == 'environment variable key "NONE" not found in file "vars"'
