"""What a pod may ask of its node beyond the ordinary, on real containers: rules for restarts, variables out of files, sysctls;
and static pods that come from a URL."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.support.node import TestNode, container, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]


PORT = 8099


@dataclass
class Manifests:
    """A web server for static pods: ``body`` is what it answers."""

    body: bytes = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": []}).encode()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        known = request.headers.get("X-Key") == "secret"
        return web.Response(body=self.body) if known else web.Response(status=401)


@asynccontextmanager
async def _serving() -> AsyncIterator[Manifests]:
    served = Manifests()
    runner = web.ServerRunner(web.Server(served.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", PORT).start()
    try:
        yield served
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[tuple[TestNode, Manifests]]:
    url, with_key = f"http://127.0.0.1:{PORT}/pods", {"X-Key": ("secret",)}
    changes = {"static_pod_url": url, "static_pod_url_header": with_key, "http_check_frequency": 0.2}
    node = running_node(**changes, allowed_unsafe_sysctls=("kernel.msg*",), seccomp_default=True)
    async with node as running, _serving() as served:  # in the node's network, where every port is free
        yield running, served


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: tuple[TestNode, Manifests]) -> AsyncIterator[TestNode]:
    yield shared[0]
    await shared[0].delete_everything()


@pytest.fixture
def manifests(shared: tuple[TestNode, Manifests]) -> Manifests:
    return shared[1]


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


def _ended_with(message: str) -> Any:
    def wanted(pod: dict[str, Any]) -> bool:
        listed = pod["status"].get("containerStatuses") or [{"state": {}}]
        return message in listed[0]["state"].get("terminated", {}).get("message", "")

    return wanted


async def test_sysctls_that_are_safe_or_allowed(node: TestNode) -> None:
    names = ("net.ipv4.tcp_syncookies", "kernel.msgmax")
    files = " ".join(f"/proc/sys/{name.replace('.', '/')}" for name in names)
    wanted = [{"name": names[0], "value": "0"}, {"name": names[1], "value": "8191"}]
    await node.create_pod(
        "tuned", script=f"cat {files} > /dev/termination-log", securityContext={"sysctls": wanted}, restartPolicy="Never"
    )
    await node.wait_pod("tuned", _ended_with("0\n8191"))
    await node.create_pod("forbidden", script="true", securityContext={"sysctls": [{"name": "kernel.shmmax", "value": "1"}]})
    pod = await node.wait_pod("forbidden", phase_is("Failed"))
    assert (pod["status"]["reason"], pod["status"]["message"]) == (
        "SysctlForbidden",
        'forbidden sysctl: "kernel.shmmax" not allowlisted',
    )


async def test_the_runtimes_seccomp_profile_is_the_default_here(node: TestNode) -> None:
    script = "grep Seccomp: /proc/self/status > /dev/termination-log"
    await node.create_pod("filtered", script=script, restartPolicy="Never")
    open_one = {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}
    await node.create_pod("open", script=script, container=open_one, restartPolicy="Never")
    await node.wait_pod("filtered", _ended_with("2"))
    await node.wait_pod("open", _ended_with("0"))


async def test_static_pods_from_a_url_have_mirrors(node: TestNode, manifests: Manifests) -> None:
    def said(*names: str) -> bytes:
        each = container("exec sleep 1000")
        spec = {"containers": [each], "terminationGracePeriodSeconds": 1}
        items = [{"metadata": {"name": name}, "spec": spec} for name in names]
        return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}).encode()

    manifests.body = said("one", "two")
    mirror = await node.wait_pod("one-node-1", is_ready, 20)
    await node.wait_pod("two-node-1", is_ready, 20)
    assert mirror["metadata"]["annotations"]["kubernetes.io/config.source"] == "http"
    manifests.body = said("two")
    await node.wait_gone("one-node-1", 20)
    await node.restart_kubelet()
    again = await node.wait_pod("two-node-1", is_ready, 20)
    assert again["status"]["containerStatuses"][0]["restartCount"] == 0
    manifests.body = b""
    await node.wait_gone("two-node-1", 20)
