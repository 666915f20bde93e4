"""A pod's data in volumes of the cluster's own class, from claim to deletion, over restarts of everything."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod

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
