"""`up --storage etcd`: a private etcd is one more part of the cluster, adopted, restarted, saved and stopped like the others."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import processes
from tests.support.cluster import Cluster, eventually, require_node, running_cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    require_node()
    with running_cluster("--storage", "etcd") as made:
        yield made


def test_every_part_runs_and_objects_are_in_etcd(cluster: Cluster) -> None:
    assert set(cluster.processes()) == {"etcd", "apiserver", "containerd", "control", "node"}
    cluster.pybernetes("status")
    cluster.kubectl("create", "configmap", "kept", "--from-literal=a=1")
    assert not (cluster.data_dir / "state.db").exists()
    keys = cluster.data_dir / "pki" / "etcd"
    etcdctl = ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints=https://127.0.0.1:2379", f"--cacert={keys}/ca.crt"]
    stranger = cluster.run(*etcdctl, "get", "/registry", check=False, timeout=20)
    assert stranger.returncode != 0, "without a certificate nobody reads"
    mine = [f"--cert={keys}/apiserver-etcd-client.crt", f"--key={keys}/apiserver-etcd-client.key"]
    assert '"a":"1"' in cluster.run(*etcdctl, *mine, "get", "/registry/configmaps/default/kept").stdout


def test_what_was_killed_is_started_again_and_the_rest_is_adopted(cluster: Cluster) -> None:
    before = cluster.processes()
    for name in ("etcd", "apiserver"):
        os.kill(before[name], signal.SIGKILL)
    cluster.pybernetes("up", "--detach")
    after = cluster.processes()
    assert {name for name in before if before[name] != after[name]} == {"etcd", "apiserver"}
    assert cluster.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "1"
    os.kill(after["etcd"], signal.SIGKILL)
    cluster.pybernetes("up", "--detach")
    eventually(lambda: "created" in cluster.kubectl("create", "configmap", "again"))
    assert cluster.processes()["apiserver"] == after["apiserver"], "it waits for etcd"


def test_a_snapshot_is_taken_by_the_data_directory(cluster: Cluster, tmp_path: Path) -> None:
    file = str(tmp_path / "now.snapshot")
    assert "etcd" in cluster.pybernetes(f"snapshot save {file}")
    told = cluster.run("python3", "-c", f"import gzip; print(gzip.open({file!r}).read().decode())").stdout
    assert "/registry/configmaps/default/kept" in told


def test_the_store_is_not_exchanged_under_the_cluster(cluster: Cluster) -> None:
    said = cluster.pybernetes("up", "--detach", "--storage", "sqlite", check=False)
    assert f"the objects of this cluster are in {cluster.data_dir / 'etcd'}" in said
    assert json.loads((cluster.data_dir / "cluster.json").read_text())["storage"] == "etcd"


def test_down_stops_it_and_up_finds_everything(cluster: Cluster) -> None:
    cluster.pybernetes("down")
    assert not list(processes.marked(cluster.data_dir))
    cluster.pybernetes("up", "--detach")
    assert cluster.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "1"
