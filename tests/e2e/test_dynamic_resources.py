"""A DRA driver beside a whole cluster: its devices are offered, allocated, made ready for a pod, over a killed kubelet, and given
back when the pod ends, which has to wait for a driver that is away.

containerd 1.6 knows nothing of CDI: what a driver prepares reaches the container from 1.7 on.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bootstrap.containerd import layout, minor_version
from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually
from tests.support.dra_driver import NAME
from tests.support.manifests import pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@contextmanager
def driver_beside(cluster: Cluster, root: Path) -> Iterator[Path]:
    """Yields the driver's folder; see ``tests.support.dra_driver``."""
    folders = [str(each) for each in (root, cluster.data_dir / "kubelet", cdi_dir(cluster))]
    argv = [sys.executable, "-m", "tests.support.dra_driver", *folders, str(cluster.kubeconfig), "node-1", "2"]
    process = cluster.start(*argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "serving\n"
        yield root
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def cdi_dir(cluster: Cluster) -> Path:
    return layout(cluster.data_dir / "containerd").cdi_dir


def knows_cdi() -> bool:
    return minor_version(subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True).stdout) >= (1, 7)


def apply(cluster: Cluster, namespace: str, kind: str, name: str, spec: Any) -> None:
    made = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(made))


def ready(cluster: Cluster, namespace: str) -> bool:
    """Raises AssertionError that says what the pod waits for."""
    status = cluster.get("pod", "user", "-n", namespace)["status"]
    (state,) = [each["state"] for each in status.get("containerStatuses") or [{"state": {}}]]
    assert "running" in state, state
    return True


def prepared(cluster: Cluster) -> list[str]:
    """The claims in the kubelet's own file."""
    document = json.loads((cluster.data_dir / "kubelet/dra_manager_state").read_text())
    return [entry["ClaimName"] for entry in json.loads(document["Data"])["Entries"] or ()]


def test_devices_of_a_driver(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    root = cluster.data_dir / "dra"
    with driver_beside(cluster, root):
        selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
        apply(cluster, namespace, "DeviceClass", "null", {"selectors": [selector]})
        wanted = {"name": "one", "exactly": {"deviceClassName": "null", "count": 2}}
        apply(cluster, namespace, "ResourceClaimTemplate", "null", {"spec": {"devices": {"requests": [wanted]}}})
        container = {
            "name": "main",
            "image": REFERENCE,
            "command": ["sleep", "1000"],
            "resources": {"claims": [{"name": "mine"}]},
        }
        entries = [{"name": "mine", "resourceClaimTemplateName": "null"}]
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("user", containers=[container], resourceClaims=entries))
        eventually(lambda: ready(cluster, namespace), seconds=40, what="the pod is ready")
        (claim,) = cluster.get("resourceclaims", "-n", namespace)["items"]
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        assert [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]] == ["null-0", "null-1"]
        spec = cdi_dir(cluster) / f"{NAME}-{uid}.json"
        assert len(json.loads(spec.read_text())["devices"]) == 2
        assert prepared(cluster) == [name]
        script = "echo $DRA_NULL_0 $DRA_NULL_1; ls /dev/dra-null-0 /dev/dra-null-1"
        inside = cluster.kubectl("exec", "user", "-n", namespace, "--", "sh", "-c", script, check=False)
        if knows_cdi():
            assert inside.split() == [name, name, "/dev/dra-null-0", "/dev/dra-null-1"]
        else:
            assert "No such file" in inside
        # The second one finds no device, and says so.
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=pod("waiting", containers=[container], resourceClaims=entries))
        eventually(lambda: "cannot allocate all claims" in cluster.kubectl("describe", "pod", "waiting", "-n", namespace))
        before = cluster.containers()["user/main"]
        os.kill(cluster.processes()["node"], signal.SIGKILL)
        cluster.pybernetes("up", "--detach", "--node-name", "node-1")
        eventually(lambda: cluster.get("resourceslices")["items"], what="the driver has published its devices anew")
        assert cluster.containers()["user/main"] == before
        assert prepared(cluster) == [name]
    # Without its driver the pod cannot end: the device might still be in use.
    cluster.kubectl("delete", "pod", "user", "-n", namespace, "--grace-period=1", "--wait=false")
    cluster.kubectl("delete", "pod", "waiting", "-n", namespace)
    kubelet = cluster.data_dir / "kubelet"
    eventually(lambda: "DRAPlugin" not in "".join(each.name for each in (kubelet / "plugins_registry").iterdir()))
    assert cluster.get("pod", "user", "-n", namespace)["metadata"]["deletionTimestamp"]
    assert prepared(cluster) == [name]
    with driver_beside(cluster, root):
        eventually(lambda: not cluster.get("pods", "-n", namespace)["items"], seconds=40)
        eventually(lambda: not prepared(cluster))
        assert not spec.exists()
        assert (root / "calls").read_text().split("\n")[:2] == [f"prepare {uid}", f"unprepare {uid}"]
        eventually(lambda: not cluster.get("resourceclaims", "-n", namespace)["items"])
