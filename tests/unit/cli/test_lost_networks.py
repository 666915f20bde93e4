"""A containerd that was killed while it made a pod's network knows nothing of it later; those that tasks use stay."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.containerd import Layout
from cli.cluster import lost_networks
from node.network import cni_config

PLUGIN = f"""#!{sys.executable}
import json, os, sys
asked = [os.environ["CNI_COMMAND"], os.environ["CNI_CONTAINERID"], os.environ["CNI_IFNAME"], json.load(sys.stdin)["type"]]
print(*asked, file=open(os.path.join(os.path.dirname(__file__), "asked"), "a"))
"""


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(lost_networks, "_RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    made = Layout(tmp_path / "root", tmp_path / "state", tmp_path / "cni", tmp_path / "bin")
    (made.state / "io.containerd.grpc.v1.cri" / "netns").mkdir(parents=True)
    made.cni_bin_dir.mkdir()
    for name in ("bridge", "portmap"):
        (made.cni_bin_dir / name).write_text(PLUGIN)
        (made.cni_bin_dir / name).chmod(0o755)
    cni_config.write(made.cni_conf_dir, cni_config.conflist(["10.244.0.0/24"], "cni0", tmp_path / "leases"))
    (tmp_path / "leases" / cni_config.NETWORK).mkdir(parents=True)
    return made


def sandbox(where: Layout, name: str, address: str, *, runs: bool) -> Path:
    """Its network namespace; an address; and a task, if it ``runs``."""
    namespace = where.state / "io.containerd.grpc.v1.cri" / "netns" / f"cni-{name}"
    namespace.touch()
    lease = where.root.parent / "leases" / cni_config.NETWORK / address
    lease.write_text(f"{name}\r\neth0")
    if runs:
        bundle = where.state / "io.containerd.runtime.v2.task" / "k8s.io" / name
        bundle.mkdir(parents=True)
        spec = {"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": str(namespace)}]}}
        (bundle / "config.json").write_text(json.dumps(spec))
    return namespace


def test_only_networks_that_no_task_uses_go(where: Layout) -> None:
    kept, lost = sandbox(where, "runs", "10.244.0.2", runs=True), sandbox(where, "lost", "10.244.0.3", runs=False)
    (lost.parent / "cni-bare").touch()
    (where.root.parent / "leases" / cni_config.NETWORK / "last_reserved_ip.0").write_text("10.244.0.3")
    results = [where.root.parent / "results" / f"{cni_config.NETWORK}-{name}-eth0" for name in ("runs", "lost")]
    for result in results:
        result.touch()

    assert lost_networks.clear(where) == ["lost", str(lost.parent / "cni-bare"), str(lost)]

    assert sorted(lost.parent.iterdir()) == [kept]
    assert [result.exists() for result in results] == [True, False]
    assert (where.cni_bin_dir / "asked").read_text().splitlines() == ["DEL lost eth0 portmap", "DEL lost eth0 bridge"]


def test_the_address_of_an_interface_in_a_host_network_bundle_is_nobodys(where: Layout) -> None:
    """A task without a network namespace of its own, and one whose description is not there, keep nothing alive."""
    bundles = where.state / "io.containerd.runtime.v2.task" / "k8s.io"
    (bundles / "host").mkdir(parents=True)
    (bundles / "host" / "config.json").write_text(json.dumps({"linux": {"namespaces": [{"type": "pid"}]}}))
    (bundles / "bare").mkdir()
    lost = sandbox(where, "lost", "10.244.0.3", runs=False)

    lost_networks.clear(where)

    assert not lost.exists()


def test_somebody_elses_network_is_left_alone(where: Layout) -> None:
    sandbox(where, "lost", "10.244.0.3", runs=False)
    (where.cni_conf_dir / cni_config.FILE_NAME).rename(where.cni_conf_dir / "10-other.conflist")

    lost_networks.clear(where)

    assert not (where.cni_bin_dir / "asked").exists()


def test_nothing_to_clear_before_the_first_start(tmp_path: Path) -> None:
    assert lost_networks.clear(Layout(tmp_path / "root", tmp_path / "state", tmp_path / "cni", tmp_path / "bin")) == []


def test_plugins_that_still_work_for_the_dead_are_awaited(where: Layout) -> None:
    lost = sandbox(where, "lost", "10.244.0.3", runs=False)
    script = f"import time; print(flush=True); time.sleep(0.3); open({str(lost.parent / 'cni-late')!r}, 'w')"
    environment = {"CNI_NETNS": str(lost.parent / "cni-late")}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE) as plugin:
        assert plugin.stdout is not None
        plugin.stdout.readline()
        lost_networks.clear(where)
        assert plugin.poll() is not None or not list(lost.parent.iterdir())
    assert list(lost.parent.iterdir()) == []


def test_a_plugin_that_hangs_is_killed(where: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_networks, "_PATIENCE", 0.2)
    environment = {"CNI_NETNS": str(where.state / "netns" / "cni-1")}
    with subprocess.Popen(["sleep", "60"], env=environment) as plugin:
        lost_networks.clear(where)
        assert plugin.wait(5) == -9
