"""The kubelet where it is less comfortable: the runtime dies, memory runs out, ports of the host, debugging a running pod."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import PODS, RUNTIME_CLASSES
from bootstrap import containerd
from client.rest import STRATEGIC
from tests.support.node import TestNode, container, is_ready, phase_is, running_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

HTTPD = "mkdir -p /www; echo ok > /www/index.html; exec httpd -f -p 8080 -h /www"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[TestNode]:
    async with running_node() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: TestNode) -> AsyncIterator[TestNode]:
    yield shared
    await shared.delete_everything()


async def _get(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_killed_containerd_costs_no_container() -> None:
    async with running_node() as node:
        await _kill_containerd(node)


async def _kill_containerd(node: TestNode) -> None:
    await node.create_pod("web", script="exec sleep 1000")
    before = await node.wait_pod("web", is_ready)
    os.kill(node.containerd.pid, signal.SIGKILL)
    await node.create_pod("late", script="exec sleep 1000")
    await asyncio.sleep(0.5)
    where = node.containerd.where
    process = await asyncio.create_subprocess_exec(*containerd.command(where), stderr=subprocess.DEVNULL)
    try:
        await node.wait_pod("late", is_ready, 30)
        after = await node.wait_pod("web", is_ready)
        one, other = before["status"]["containerStatuses"][0], after["status"]["containerStatuses"][0]
        assert (one["containerID"], one["restartCount"]) == (other["containerID"], other["restartCount"])
        for name in ("web", "late"):
            await node.client.delete(PODS, name, "default", grace=1)
            await node.wait_gone(name)
    finally:
        process.kill()
        await process.wait()


async def test_running_out_of_memory_is_named(node: TestNode) -> None:
    limits = {"resources": {"limits": {"memory": "16Mi"}}}
    await node.create_pod("hungry", script="exec tail /dev/zero", container=limits, restartPolicy="Never")
    pod = await node.wait_pod("hungry", phase_is("Failed"), 30)
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


async def test_the_deadline_is_kept(node: TestNode) -> None:
    await node.create_pod("late", script="exec sleep 1000", activeDeadlineSeconds=2, terminationGracePeriodSeconds=1)
    pod = await node.wait_pod("late", phase_is("Failed"), 20)
    assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_a_host_port_leads_to_the_pod(node: TestNode) -> None:
    ports = {"ports": [{"containerPort": 8080, "hostPort": 18080}]}
    probe = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
    await node.create_pod("web", script=HTTPD, container={**ports, **probe})
    await node.wait_pod("web", is_ready)
    assert b"ok" in await _get("127.0.0.1", 18080)


async def test_a_sub_path_shows_one_file(node: TestNode) -> None:
    init = [container("mkdir /v/d; echo one > /v/d/f; echo two > /v/g", "init", volumeMounts=[{"name": "v", "mountPath": "/v"}])]
    mounts = [
        {"name": "v", "mountPath": "/only", "subPath": "d/f"},
        {"name": "v", "mountPath": "/expr", "subPathExpr": "$(WHICH)", "readOnly": True},
    ]
    script = "(cat /only; cat /expr; echo x >> /expr || echo read-only) > /dev/termination-log 2>/dev/null"
    main = container(script, volumeMounts=mounts, env=[{"name": "WHICH", "value": "g"}])
    spec: dict[str, Any] = {"containers": [main], "initContainers": init, "volumes": [{"name": "v", "emptyDir": {}}]}
    await node.create_pod("sub", restartPolicy="Never", **spec)
    pod = await node.wait_pod("sub", phase_is("Succeeded"), 20)
    said = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert said.split() == ["one", "two", "read-only"]


async def test_a_debug_container_joins_a_running_pod(node: TestNode) -> None:
    await node.create_pod("web", script="exec sleep 4242")
    before = await node.wait_pod("web", is_ready)
    script = "ps -o args | grep -q 'sleep 424[2]' && echo found > /dev/termination-log"
    debug = container(script, "debug", targetContainerName="main", terminationMessagePath="/dev/termination-log")
    body = {"spec": {"ephemeralContainers": [debug]}}
    await node.client.patch(PODS, "web", body, STRATEGIC, "default", subresource="ephemeralcontainers")

    def ended(pod: dict[str, Any]) -> bool:
        return any("terminated" in each["state"] for each in pod["status"].get("ephemeralContainerStatuses", []))

    after = await node.wait_pod("web", ended)
    (status,) = after["status"]["ephemeralContainerStatuses"]
    assert status["state"]["terminated"]["message"] == "found\n"
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert is_ready(after) == is_ready(before)


async def test_shared_process_namespace_and_hostname(node: TestNode) -> None:
    script = "sleep 1; (ps -o args | grep -c 'sleep 515[1]'; hostname; grep -c h.s.default.svc /etc/hosts) > /dev/termination-log"
    containers = [container(script), container("exec sleep 5151", "other")]
    spec = {"shareProcessNamespace": True, "hostname": "h", "subdomain": "s", "restartPolicy": "Never"}
    await node.create_pod("shared", containers=containers, **spec)
    listed = "containerStatuses"
    pod = await node.wait_pod("shared", lambda pod: "terminated" in pod["status"].get(listed, [{"state": {}}])[0]["state"])
    assert pod["status"]["phase"] == "Running"
    assert pod["status"][listed][0]["state"]["terminated"]["message"].split() == ["1", "h", "1"]


async def test_lifecycle_hooks(node: TestNode) -> None:
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started > /shared/post"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /shared/pre"]}},
    }
    script = "trap 'cat /shared/post /shared/pre > /dev/termination-log; exit 0' TERM; while true; do sleep 0.05; done"
    main = container(script, lifecycle=lifecycle, volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
    spec = {"containers": [main], "volumes": [{"name": "shared", "emptyDir": {}}], "terminationGracePeriodSeconds": 10}
    pod = await node.create_pod("hooks", **spec)
    await node.wait_pod("hooks", is_ready)
    metadata = {"metadata": {"finalizers": ["example.org/hold"]}}
    await node.client.patch(PODS, "hooks", metadata, STRATEGIC, "default")
    await node.client.delete(PODS, "hooks", "default")
    ended = await node.wait_pod("hooks", phase_is("Succeeded"))
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "started\nstopping\n"
    assert ended["metadata"]["uid"] == pod["metadata"]["uid"]
    await node.client.patch(PODS, "hooks", {"metadata": {"finalizers": None}}, STRATEGIC, "default")
    await node.wait_gone("hooks")


async def test_a_failing_post_start_hook_kills_the_container(node: TestNode) -> None:
    lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "exit 4"]}}}
    await node.create_pod("bad", script="exec sleep 1000", container={"lifecycle": lifecycle}, terminationGracePeriodSeconds=1)
    async with asyncio.timeout(15):
        while not any(reason == "FailedPostStartHook" for reason, _ in await node.events("bad")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await node.wait_pod("bad", lambda pod: "lastState" in pod["status"].get("containerStatuses", [{}])[0])


async def test_a_runtime_class_chooses_the_handler(node: TestNode) -> None:
    for name, handler in (("plain", "runc"), ("wrong", "nothing")):
        made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}
        await node.client.create(RUNTIME_CLASSES, made)
    await node.create_pod("plain", script="exec sleep 1000", runtimeClassName="plain")
    await node.wait_pod("plain", is_ready)
    await node.create_pod("wrong", script="exec sleep 1000", runtimeClassName="wrong")

    async def refused() -> bool:
        return any('no runtime for "nothing" is configured' in note for _, note in await node.events("wrong"))

    async with asyncio.timeout(15):
        while not await refused():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert (await node.pod("wrong") or {})["status"]["phase"] == "Pending"
    for name in ("plain", "wrong"):
        await node.client.delete(RUNTIME_CLASSES, name)
