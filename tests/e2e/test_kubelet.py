"""The kubelet on a real containerd, against the API server in this process: what a user of pods can see."""

import asyncio
import base64
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apimachinery.resources import CONFIG_MAPS, NODES, PODS, SECRETS
from cri.channel import Channel
from cri.runtime import GrpcRuntime
from tests.support.node import NODE_NAME, TestNode, container, is_ready, phase_is, running_node

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


def _pid_of(container_id: str) -> list[int]:
    """The processes of a container, by its cgroup: a folder of its name, or a scope of systemd's with that in its name."""
    found: list[int] = []
    root = Path("/sys/fs/cgroup/pids")
    for folder in (root if root.is_dir() else root.parent).rglob(f"*{container_id.removeprefix('containerd://')}*"):
        if (folder / "cgroup.procs").exists():
            found += [int(text) for text in (folder / "cgroup.procs").read_text().split()]
    return found


def _waits_for(pod: dict[str, Any], reason: str) -> bool:
    listed = pod["status"].get("containerStatuses") or [{"state": {}}]
    return bool(listed[0]["state"].get("waiting", {}).get("reason") == reason)


async def test_a_pod_becomes_ready_answers_and_goes(node: TestNode) -> None:
    await node.create_pod("web", script=HTTPD, container={"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}})
    began = time.monotonic()
    pod = await node.wait_pod("web", is_ready)
    took = time.monotonic() - began
    assert took < 5, f"create-to-Ready took {took:.2f} s"
    ip = pod["status"]["podIP"]
    reader, writer = await asyncio.open_connection(ip, 8080)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert b"ok" in await reader.read()
    writer.close()
    assert [reason for reason, _ in await node.events("web")][:3] == ["Pulled", "Created", "Started"]
    await node.client.delete(PODS, "web", "default", grace=1)
    await node.wait_gone("web")
    assert not (node.config.root_dir / "pods" / pod["metadata"]["uid"] / "volumes").exists()


async def test_the_node_is_described(node: TestNode) -> None:
    found = await node.client.get(NODES, NODE_NAME)
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == NODE_NAME
    assert found["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    assert found["status"]["capacity"]["pods"] == "110"
    assert {each["type"]: each["status"] for each in found["status"]["conditions"]}["Ready"] == "True"
    answer = await node.server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_NAME}")
    assert answer.json["spec"]["holderIdentity"] == NODE_NAME


async def test_a_killed_process_is_restarted(node: TestNode) -> None:
    await node.create_pod("web", script="exec sleep 1000")
    pod = await node.wait_pod("web", is_ready)
    identity = pod["status"]["containerStatuses"][0]["containerID"]
    for pid in _pid_of(identity):
        os.kill(pid, signal.SIGKILL)
    again = await node.wait_pod("web", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1 and is_ready(pod))
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
    assert again["status"]["podIP"] == pod["status"]["podIP"]


async def test_a_restarted_kubelet_restarts_no_container(node: TestNode) -> None:
    probe = {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}
    await node.create_pod("web", script="exec sleep 1000", container=probe)
    before = await node.wait_pod("web", is_ready)
    await node.restart_kubelet()
    await asyncio.sleep(1.5)
    after = await node.wait_pod("web", is_ready)
    same = ("containerID", "restartCount", "state")
    one, other = before["status"]["containerStatuses"][0], after["status"]["containerStatuses"][0]
    assert [one[key] for key in same] == [other[key] for key in same]
    stamps = {each["type"]: each["lastTransitionTime"] for each in before["status"]["conditions"]}
    assert stamps == {each["type"]: each["lastTransitionTime"] for each in after["status"]["conditions"]}, "it stayed Ready"


async def test_pods_deleted_while_the_kubelet_was_away_are_removed(node: TestNode) -> None:
    await node.create_pod("web", script="exec sleep 1000")
    await node.wait_pod("web", is_ready)
    await node.stop_kubelet()
    await node.client.delete(PODS, "web", "default", grace=0)
    await node.wait_gone("web")
    await node.start_kubelet()
    channel = Channel(node.containerd.endpoint)
    runtime = GrpcRuntime(channel)
    async with asyncio.timeout(15):
        while await runtime.list_pod_sandboxes():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await channel.close()


async def test_configuration_reaches_the_container(node: TestNode) -> None:
    metadata = {"name": "settings", "namespace": "default"}
    await node.client.create(
        CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"MODE": "fast"}}
    )
    data = {"password": base64.b64encode(b"hunter2").decode()}
    metadata = {"name": "login", "namespace": "default"}
    await node.client.create(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    )
    script = "echo $MODE $PASSWORD $NAME $(cat /etc/settings/MODE) $(hostname) $LIMIT > /dev/termination-log"
    variables = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    given = {
        "env": variables,
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
    }
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    await node.create_pod("job", script=script, container=given, volumes=volumes, restartPolicy="Never")
    pod = await node.wait_pod("job", phase_is("Succeeded"))
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["message"].split() == ["fast", "hunter2", "job", "fast", "job", "64"]


async def test_a_crashing_container_backs_off(node: TestNode) -> None:
    await node.create_pod("bad", script="exit 3")
    waiting = await node.wait_pod("bad", lambda pod: _waits_for(pod, "CrashLoopBackOff"))
    status = waiting["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert "BackOff" in [reason for reason, _ in await node.events("bad")]


async def test_a_failing_liveness_probe_restarts_the_container(node: TestNode) -> None:
    probe = {"exec": {"command": ["cat", "/tmp/alive"]}, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1}
    script = "touch /tmp/alive; sleep 2; rm /tmp/alive; trap 'exit 0' TERM; while true; do sleep 0.1; done"
    await node.create_pod("live", script=script, container={"livenessProbe": probe})
    await node.wait_pod("live", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1, 20)
    seen = await node.events("live")
    assert ("Killing", "Container main failed liveness probe, will be restarted") in seen
    assert any(reason == "Unhealthy" and note.startswith("Liveness probe failed: ") for reason, note in seen)


async def test_init_containers_and_sidecars(node: TestNode) -> None:
    init = [
        container("echo one > /shared/log", "one", volumeMounts=[{"name": "shared", "mountPath": "/shared"}]),
        container("exec sleep 1000", "side", restartPolicy="Always"),
    ]
    main = container("cat /shared/log > /dev/termination-log", volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
    volumes = [{"name": "shared", "emptyDir": {}}]
    end = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    await node.create_pod("app", containers=[main], initContainers=init, volumes=volumes, **end)
    pod = await node.wait_pod("app", phase_is("Succeeded"), 20)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "one\n"
    assert "terminated" in pod["status"]["initContainerStatuses"][1]["state"], "it is over only when all of it is"


async def test_the_signal_is_not_delayed_and_the_grace_is_kept(node: TestNode) -> None:
    script = "trap 'echo got > /dev/termination-log; exit 7' TERM; while true; do sleep 0.05; done"
    await node.create_pod("polite", script=script)
    await node.wait_pod("polite", is_ready)
    began = time.monotonic()
    await node.client.delete(PODS, "polite", "default", grace=30)
    await node.wait_gone("polite")
    assert time.monotonic() - began < 4
    stubborn = "trap '' TERM; while true; do sleep 0.05; done"
    await node.create_pod("stubborn", script=stubborn)
    await node.wait_pod("stubborn", is_ready)
    began = time.monotonic()
    await node.client.delete(PODS, "stubborn", "default", grace=2)
    await node.wait_gone("stubborn")
    assert 1.9 < time.monotonic() - began < 6


async def test_host_network_resolv_conf_and_hosts(node: TestNode) -> None:
    script = "(grep -c Kubernetes-managed /etc/hosts; grep 1.2.3.4 /etc/hosts; cat /etc/resolv.conf) > /dev/termination-log"
    spec = {
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["alias"]}],
    }
    await node.create_pod("names", script=script, restartPolicy="Never", **spec)
    pod = await node.wait_pod("names", phase_is("Succeeded"))
    said = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert said.splitlines()[:2] == ["1", "1.2.3.4\talias"]
    assert "nameserver 192.0.2.53" in said
    assert "search example.org" in said
    await node.create_pod("host", script="exec sleep 1000", hostNetwork=True)
    host = await node.wait_pod("host", is_ready)
    assert host["status"]["podIP"] == node.config.node_ip


async def test_security_contexts(node: TestNode) -> None:
    script = "(id -u; id -g; touch /x 2>/dev/null && echo writable || echo read-only) > /dev/termination-log"
    context = {"runAsUser": 1000, "runAsGroup": 2000, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    context["capabilities"] = {"drop": ["ALL"]}
    context["seccompProfile"] = {"type": "RuntimeDefault"}
    await node.create_pod("safe", script=script, container={"securityContext": context}, restartPolicy="Never")
    pod = await node.wait_pod("safe", phase_is("Succeeded"))
    said = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert said.split() == ["1000", "2000", "read-only"]
    await node.create_pod("root", script="true", container={"securityContext": {"runAsNonRoot": True}})
    refused = await node.wait_pod("root", lambda pod: _waits_for(pod, "CreateContainerConfigError"))
    message = refused["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message.startswith("container has runAsNonRoot and image will run as root")


async def test_limits_reach_the_kernel(node: TestNode) -> None:
    resources = {"requests": {"cpu": "250m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    await node.create_pod("limited", script="exec sleep 1000", container={"resources": resources})
    pod = await node.wait_pod("limited", is_ready)
    uid = pod["metadata"]["uid"]
    below = Path(node.config.cgroup_root.strip("/"), "kubepods", "burstable", f"pod{uid}")
    root = Path("/sys/fs/cgroup")
    if not (root / "memory").is_dir():
        pytest.skip("cgroup v2")
    identity = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    assert (root / "memory" / below / identity / "memory.limit_in_bytes").read_text().strip() == str(64 << 20)
    assert (root / "memory" / below / "memory.limit_in_bytes").read_text().strip() == str(64 << 20)
    assert (root / "cpu" / below / identity / "cpu.shares").read_text().strip() == "256"
    assert (root / "cpu" / below / identity / "cpu.cfs_quota_us").read_text().strip() == "50000"
    await node.client.delete(PODS, "limited", "default", grace=1)
    await node.wait_gone("limited")
    assert not (root / "memory" / below).exists()


async def test_twenty_pods_at_once(node: TestNode) -> None:
    began = time.monotonic()
    probe = {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
    for number in range(20):
        await node.create_pod(f"p{number}", script=HTTPD, container=probe, terminationGracePeriodSeconds=1)
    pods = [await node.wait_pod(f"p{number}", is_ready, 40) for number in range(20)]
    assert time.monotonic() - began < 30
    assert len({pod["status"]["podIP"] for pod in pods}) == 20
    for number in range(20):
        await node.client.delete(PODS, f"p{number}", "default")
    for number in range(20):
        await node.wait_gone(f"p{number}", 30)


async def test_static_pods_and_their_mirrors(tmp_path: Path) -> None:
    spec = {"containers": [container("exec sleep 1000")], "terminationGracePeriodSeconds": 1}
    manifest = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"}, "spec": spec})
    async with running_node(static_pod_path=tmp_path) as node:
        (tmp_path / "static.json").write_text(manifest)
        mirror = await node.wait_pod(f"static-{NODE_NAME}", is_ready)
        assert mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"]
        await node.client.delete(PODS, f"static-{NODE_NAME}", "default", grace=0)
        first = mirror["metadata"]["uid"]
        again = await node.wait_pod(f"static-{NODE_NAME}", lambda pod: is_ready(pod) and pod["metadata"]["uid"] != first)
        one, other = mirror["status"]["containerStatuses"][0], again["status"]["containerStatuses"][0]
        assert one["containerID"] == other["containerID"], "only the image went; what runs goes on"
        await node.stop_kubelet()
        (tmp_path / "static.json").write_text(manifest.replace("1000", "1001"))
        await node.start_kubelet()
        edited = await node.wait_pod(f"static-{NODE_NAME}", lambda pod: is_ready(pod) and "1001" in json.dumps(pod["spec"]))
        assert edited["status"]["containerStatuses"][0]["containerID"] != one["containerID"]
        channel = Channel(node.containerd.endpoint)
        assert len(await GrpcRuntime(channel).list_pod_sandboxes()) == 1, "what the old manifest said has ended before"
        await channel.close()
        (tmp_path / "static.json").unlink()
        await node.wait_gone(f"static-{NODE_NAME}", 45)
