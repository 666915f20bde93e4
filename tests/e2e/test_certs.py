"""Certificates of a running cluster are renewed, and every part goes on with the new ones without a restart."""

import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from component.x509 import parse
from tests.support.cluster import ADDRESS, Cluster
from tests.support.manifests import pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SHOW = "import ssl,sys; print(ssl.get_server_certificate((sys.argv[1], int(sys.argv[2]))))"


def shown(cluster: Cluster, port: int) -> bytes:
    """The certificate that a port shows."""
    pem = cluster.run(sys.executable, "-c", SHOW, ADDRESS if port != 10257 else "127.0.0.1", str(port)).stdout
    return ssl.PEM_cert_to_DER_cert(pem)


def file(cluster: Cluster, name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(Path(cluster.data_dir, "pki", f"{name}.crt").read_text())


def becomes(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_all_certificates_are_renewed_under_a_running_cluster(cluster: Cluster, namespace: str) -> None:
    before = {name: file(cluster, name) for name in ("apiserver", "kubelet", "control")}
    pids = cluster.processes()
    old = parse(before["apiserver"])
    assert "kubelet-client" in cluster.pybernetes("certs check-expiration")
    assert cluster.pybernetes("certs renew", "all").count(" renewed\n") == 11
    for name, port in {"apiserver": 6443, "kubelet": 10250, "control": 10257}.items():
        becomes(lambda name=name, port=port: shown(cluster, port) == file(cluster, name) != before[name])  # type: ignore[misc]
    assert parse(shown(cluster, 6443)).dns_names == old.dns_names
    running = pod("after", "sh", "-c", "echo still-here; sleep 600")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=running)
    becomes(lambda: "still-here" in cluster.kubectl("logs", "after", "-n", namespace, check=False), 60)
    assert cluster.processes() == pids, "nothing was restarted"
    assert "Ready" in cluster.pybernetes("status")
