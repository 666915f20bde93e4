"""A CSI driver beside a real kubelet: attached, staged, published, seen by a pod, over a killed kubelet, and all undone."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually
from tests.support.csi_cluster import csi_driver_beside
from tests.support.csi_driver import NAME
from tests.support.manifests import pod
from tests.support.storage import claim_volume, make_claim, make_volume

pytestmark = pytest.mark.e2e


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Path]:
    with csi_driver_beside(cluster) as root:
        yield root


def apply(cluster: Cluster, namespace: str, *objects: Any) -> None:
    for each in objects:
        each.setdefault("metadata", {}).pop("namespace", None)
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(each))


def test_from_attachment_to_detachment(cluster: Cluster, namespace: str, driver: Path) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    eventually(lambda: cluster.get("csinode", "node-1")["spec"]["drivers"][0]["name"] == NAME)
    spec = {"attachRequired": True, "podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}
    volume = make_volume(f"pv-{namespace}", csi={"driver": NAME, "volumeHandle": "h", "fsType": "ext4"})
    described = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": NAME}, "spec": spec}
    apply(cluster, namespace, described, volume, make_claim("data"))
    container: dict[str, Any] = {"name": "main", "image": REFERENCE, "command": ["sleep", "1000"]}
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}, {"name": "inline", "mountPath": "/inline"}]
    entries = [claim_volume("data", "data"), {"name": "inline", "csi": {"driver": NAME}}]
    given = pod("user", containers=[container], volumes=entries, securityContext={"fsGroup": 4711})
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=given)
    attachment = eventually(lambda: cluster.get("volumeattachment")["items"][0])
    assert attachment["spec"]["source"] == {"persistentVolumeName": f"pv-{namespace}"}
    attached = json.dumps({"status": {"attached": True}})
    name = attachment["metadata"]["name"]
    path = f"/apis/storage.k8s.io/v1/volumeattachments/{name}/status"
    patch = ["patch", "volumeattachment", name, "--subresource=status", "--type=merge", "-p", attached]
    if "unknown flag" in cluster.kubectl(*patch, check=False):  # kubectl of before 1.24
        current = cluster.get("volumeattachment", name)
        replaced = json.dumps({**current, "status": {"attached": True}})
        cluster.kubectl("replace", "--raw", path, "-f", "-", stdin=replaced)
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/user", "--timeout=60s")

    def inside(script: str) -> str:
        return cluster.kubectl("exec", "user", "-n", namespace, "--", "sh", "-c", script, check=False)

    assert inside("echo kept > /data/file; echo x > /inline/file; ls -ldn /data").split()[3] == "4711"
    status = cluster.get("node", "node-1")["status"]
    assert status["volumesInUse"] == [each["name"] for each in status["volumesAttached"]] == [f"kubernetes.io/csi/{NAME}^h"]
    os.kill(cluster.processes()["node"], signal.SIGKILL)
    cluster.pybernetes("up", "--detach", "--node-name", "node-1")
    eventually(lambda: inside("cat /data/file") == "kept\n")
    eventually(lambda: cluster.get("csinode", "node-1")["spec"]["drivers"][0]["name"] == NAME)
    cluster.kubectl("delete", "pod", "user", "-n", namespace, "--grace-period=1")
    eventually(lambda: not cluster.get("volumeattachment")["items"])
    kubelet = cluster.data_dir / "kubelet"
    eventually(lambda: str(kubelet / "plugins") not in Path("/proc/self/mountinfo").read_text())
    assert (driver / "volumes/h/file").read_text() == "kept\n"
    assert [entry.name for entry in (driver / "volumes").iterdir()] == ["h"]  # the inline one has gone with its pod
    assert "volumesInUse" not in cluster.get("node", "node-1")["status"]
