"""What only the whole of it can show: files copied through exec, old and new transports, and volumes inside containers."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod

pytestmark = pytest.mark.e2e


def wait(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


@pytest.fixture
def shell(cluster: Cluster, namespace: str) -> str:
    """A pod with a shell, and tar for ``kubectl cp``."""
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("shell", "sleep", "1000"))
    wait(cluster, namespace, "shell")
    cluster.kubectl("exec", "shell", "-n", namespace, "--", "/bin/busybox", "ln", "-s", "/bin/busybox", "/bin/tar")
    return "shell"


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_copies_come_back_the_same(cluster: Cluster, namespace: str, shell: str, tmp_path: Path, websockets: str) -> None:
    sent, returned = tmp_path / "sent", tmp_path / "returned"
    sent.write_bytes(os.urandom(5_000_000))
    environment = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets}

    def copy(source: str, target: str) -> None:
        command = cluster.inside(*cluster.kubectl_argv("cp", "-n", namespace, source, target))
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment)

    copy(str(sent), f"{shell}:/copy")
    copy(f"{shell}:/copy", str(returned))
    assert sent.read_bytes() == returned.read_bytes()


def test_attach_reaches_the_main_process(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    container = {"name": "main", "image": REFERENCE, "stdin": True, "stdinOnce": True, "command": ["cat"]}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("reader", containers=[container], restartPolicy="Never"))
    wait(cluster, namespace, "reader")
    assert "hello\n" in cluster.kubectl("attach", "-i", "reader", "-n", namespace, stdin="hello\n")
    eventually(lambda: cluster.kubectl("logs", "reader", "-n", namespace) == "hello\n")


def test_volumes_of_every_kind(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("from the node")
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    cluster.kubectl("create", "configmap", "conf", "-n", namespace, "--from-literal=one=1", "--from-literal=two=2")
    volumes: list[dict[str, Any]] = [
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "one", "path": "a/b", "mode": 0o400}]}},
    ]
    mounts: list[dict[str, Any]] = [{"name": item["name"], "mountPath": f"/{item['name']}"} for item in volumes]
    mounts[2]["readOnly"] = True
    mounts.append({"name": "conf", "mountPath": "/single", "subPath": "a/b"})
    mounts.append({"name": "disk", "mountPath": "/mine", "subPathExpr": "of-$(NAME)"})
    container = {
        "name": "main",
        "image": REFERENCE,
        "command": ["sleep", "1000"],
        "volumeMounts": mounts,
        "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    spec = {"containers": [container], "volumes": volumes, "securityContext": {"fsGroup": 4711}}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("full", **spec))
    wait(cluster, namespace, "full")

    def inside(script: str) -> str:
        return cluster.kubectl("exec", "full", "-n", namespace, "--", "sh", "-c", script, check=False)

    assert inside("cat /host/there /conf/a/b /single") == "from the node11"
    assert "Read-only file system" in inside("echo x > /host/there")
    assert "Read-only file system" in inside("echo x > /conf/c")
    assert inside("echo kept > /mine/f; cat /disk/of-full/f") == "kept\n"
    assert "/memory tmpfs" in inside("while read x; do echo $x; done < /proc/mounts")
    assert [line.split()[3] for line in inside("ls -ldn /disk /memory").splitlines()] == ["4711", "4711"]
    uid = cluster.get("pod", "full", "-n", namespace)["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "full", "-n", namespace, "--grace-period=1")
    eventually(lambda: uid not in Path("/proc/self/mountinfo").read_text())
    assert (tmp_path / "there").read_text() == "from the node"


def test_a_missing_volume_is_an_event_and_then_heals(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    volume = {"name": "conf", "configMap": {"name": "late"}}
    container = {"name": "main", "image": REFERENCE, "command": ["sleep", "1000"]}
    container["volumeMounts"] = [{"name": "conf", "mountPath": "/conf"}]  # type: ignore[assignment]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("patient", containers=[container], volumes=[volume]))
    message = 'MountVolume.SetUp failed for volume "conf" : configmap "late" not found'
    eventually(lambda: message in json.dumps(cluster.get("events", "-n", namespace)["items"]).replace('\\"', '"'))
    cluster.kubectl("create", "configmap", "late", "-n", namespace, "--from-literal=a=b")
    wait(cluster, namespace, "patient")
