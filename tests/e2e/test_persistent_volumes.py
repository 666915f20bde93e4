"""A pod's data in volumes of the cluster's own class, from claim to deletion, over restarts of everything."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from node.kubelet.volumes import mounts
from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod
from tests.support.storage import claim_volume, make_claim, make_volume

pytestmark = pytest.mark.e2e

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def writer(name: str, **more: Any) -> str:
    container = {"name": "main", "image": REFERENCE, "command": ["sleep", "1000"]}
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/sub", "subPath": "sub"}]  # type: ignore[assignment]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}, **more}
    return pod(name, containers=[container], volumes=[volume])


def of_its_own(name: str) -> str:
    """A pod with a generic ephemeral volume of the default class."""
    container = {"name": "main", "image": REFERENCE, "command": ["sh", "-c", "echo x > /data/file; sleep 1000"]}
    container["volumeMounts"] = [{"name": "scratch", "mountPath": "/data"}]  # type: ignore[assignment]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    return pod(name, containers=[container], volumes=[volume])


def mounted(text: str) -> bool:
    return text in Path("/proc/self/mountinfo").read_text()


def test_data_outlives_pods_and_kubelets_and_goes_with_its_claim(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=CLAIM)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=writer("first"))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/first", "--timeout=60s")
    claim = cluster.get("pvc", "data", "-n", namespace)
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "local-path")
    volume = cluster.get("pv", claim["spec"]["volumeName"])
    directory = Path(volume["spec"]["local"]["path"])
    assert directory.parent == cluster.data_dir / "local-path"

    def inside(name: str, script: str) -> str:
        return cluster.kubectl("exec", name, "-n", namespace, "--", "sh", "-c", script, check=False)

    assert inside("first", "echo kept > /data/file; echo too > /sub/file; cat /data/sub/file") == "too\n"
    uid = cluster.get("pod", "first", "-n", namespace)["metadata"]["uid"]
    assert mounted(uid)
    node = cluster.processes()["node"]
    os.kill(node, signal.SIGKILL)
    cluster.pybernetes("up", "--detach", "--node-name", "node-1")
    eventually(lambda: inside("first", "cat /data/file") == "kept\n")
    cluster.kubectl("delete", "pod", "first", "-n", namespace, "--grace-period=1")
    eventually(lambda: not mounted(uid))
    eventually(lambda: not (cluster.data_dir / "kubelet/pods" / uid).exists())
    assert (directory / "file").read_text() == "kept\n"
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=writer("second"))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/second", "--timeout=60s")
    assert inside("second", "cat /data/file /data/sub/file") == "kept\ntoo\n"
    cluster.kubectl("delete", "pvc", "data", "-n", namespace, "--wait=false")
    assert cluster.get("pvc", "data", "-n", namespace)["metadata"]["deletionTimestamp"]
    cluster.kubectl("delete", "pod", "second", "-n", namespace, "--grace-period=1")
    eventually(lambda: not directory.exists())
    eventually(lambda: volume["metadata"]["name"] not in cluster.kubectl("get", "pv"))


def test_an_ephemeral_volume_comes_and_goes_with_its_pod(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=of_its_own("brief"))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/brief", "--timeout=60s")
    volume = cluster.get("pvc", "brief-scratch", "-n", namespace)["spec"]["volumeName"]
    directory = Path(cluster.get("pv", volume)["spec"]["local"]["path"])
    eventually(lambda: (directory / "file").exists())
    cluster.kubectl("delete", "pod", "brief", "-n", namespace, "--grace-period=1")
    eventually(lambda: not directory.exists())
    eventually(lambda: volume not in cluster.kubectl("get", "pv"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A block device of 4 MiB that begins with a word."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.write(b"raw bytes")
        file.truncate(4 << 20)
    done = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no loop devices: {done.stderr.strip()}")
    yield done.stdout.strip()
    subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder whose mounts reach others, as on machines with systemd all do."""
    subprocess.run(["mount", "--bind", str(tmp_path), str(tmp_path)], check=True)
    try:
        subprocess.run(["mount", "--make-shared", str(tmp_path)], check=True)
        yield tmp_path
    finally:
        mounts.unmount_below(tmp_path)  # what a container mounts for others is not the kubelet's to undo


def test_a_bare_device_and_mounts_for_other_containers(cluster: Cluster, namespace: str, disk: str, shared: Path) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    volume = make_volume(f"disk-{namespace}", "4Mi", volumeMode="Block", local={"path": disk}, node="node-1")
    claim = make_claim("disk", "4Mi", volumeMode="Block")
    del claim["metadata"]["namespace"]
    for each in (volume, claim):
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(each))
    mount = {"name": "shared", "mountPath": "/shared"}
    reader: dict[str, Any] = {"name": "reader", "image": REFERENCE, "command": ["sleep", "1000"]}
    reader["volumeDevices"] = [{"name": "disk", "devicePath": "/dev/raw"}]
    reader["volumeMounts"] = [{**mount, "mountPropagation": "HostToContainer"}]
    mounter: dict[str, Any] = {"name": "mounter", "image": REFERENCE, "securityContext": {"privileged": True}}
    mounter["command"] = [
        "sh",
        "-c",
        "mkdir -p /shared/in; mount -t tmpfs none /shared/in; echo seen > /shared/in/file; sleep 1000",
    ]
    mounter["volumeMounts"] = [{**mount, "mountPropagation": "Bidirectional"}]
    volumes = [claim_volume("disk", "disk"), {"name": "shared", "hostPath": {"path": str(shared)}}]
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("raw", containers=[reader, mounter], volumes=volumes))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/raw", "--timeout=60s")

    def inside(script: str) -> str:
        return cluster.kubectl("exec", "raw", "-c", "reader", "-n", namespace, "--", "sh", "-c", script, check=False)

    assert inside("head -c 9 /dev/raw") == "raw bytes"
    eventually(lambda: inside("cat /shared/in/file") == "seen\n")
    cluster.kubectl("delete", "pod", "raw", "-n", namespace, "--grace-period=1")
    cluster.kubectl("delete", "pvc", "disk", "-n", namespace)
    cluster.kubectl("delete", "pv", f"disk-{namespace}")
