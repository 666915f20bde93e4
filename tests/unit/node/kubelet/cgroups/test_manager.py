"""Pod cgroups on an imitated hierarchy: directories made, controls written, everything removed again."""

from dataclasses import replace
from pathlib import Path

import pytest

from component.errors import OperatorError
from node.kubelet.cgroups.manager import Cgroups
from node.kubelet.config import KubeletConfig
from tests.support.pod_workers import container, pod

LIMITED = container(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}})
CONFIG = KubeletConfig(cgroup_root="/test")


def _v1(root: Path) -> Path:
    for controller in ("cpu", "memory", "pids"):
        (root / controller).mkdir(parents=True)
    return root


async def test_v1(tmp_path: Path) -> None:
    cgroups = Cgroups(CONFIG, _v1(tmp_path))
    assert cgroups.version == 1
    parent = await cgroups.ensure(pod(containers=[LIMITED]))
    assert parent == "/test/kubepods/burstable/poduid-web"
    assert (tmp_path / "cpu" / parent[1:] / "cpu.cfs_quota_us").read_text() == "50000"
    assert (tmp_path / "memory" / parent[1:] / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert list(await cgroups.present()) == ["uid-web"]
    for control in (tmp_path / "cpu" / parent[1:]).iterdir():
        control.unlink()  # on the real one, files vanish with their directory
    for control in (tmp_path / "memory" / parent[1:]).iterdir():
        control.unlink()
    await cgroups.remove("uid-web")
    assert list(await cgroups.present()) == []


@pytest.mark.parametrize("hierarchy", ["unified", "perf_event", "misc"])
async def test_what_a_runtime_made_in_other_hierarchies_goes_too(hierarchy: str, tmp_path: Path) -> None:
    theirs = _v1(tmp_path) / hierarchy / "test/kubepods/besteffort/poduid-web/container"
    theirs.mkdir(parents=True)
    cgroups = Cgroups(CONFIG, tmp_path)
    assert list(await cgroups.present()) == ["uid-web"]
    await cgroups.remove("uid-web")
    assert list(await cgroups.present()) == []


async def test_v2(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "test", tmp_path / "test/kubepods", tmp_path / "test/kubepods/burstable"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory pids")
    leaf = tmp_path / "test/kubepods/burstable/poduid-web"
    leaf.mkdir()
    for name in ("cpu.weight", "cpu.max", "memory.max", "pids.max"):
        (leaf / name).write_text("")
    cgroups = Cgroups(CONFIG, tmp_path)
    assert cgroups.version == 2
    await cgroups.ensure(pod(containers=[LIMITED]))
    assert (leaf / "cpu.max").read_text() == "50000 100000"
    assert (tmp_path / "test" / "cgroup.subtree_control").read_text() == "+pids"


async def test_nothing_is_made_without_a_hierarchy_of_our_own(tmp_path: Path) -> None:
    cgroups = Cgroups(KubeletConfig(cgroups_per_qos=False, cgroup_root="/x"), _v1(tmp_path))
    assert await cgroups.ensure(pod()) == "/x"
    assert not list(tmp_path.rglob("*pod*"))
    assert list(await cgroups.present()) == []


async def test_classes_weigh_what_their_pods_request(tmp_path: Path) -> None:
    cgroups = Cgroups(CONFIG, _v1(tmp_path), lambda: {"cpu": "2"})
    await cgroups.weigh([pod(containers=[LIMITED]), pod("b", containers=[LIMITED]), pod("c")])

    def shares(path: str) -> str:
        return (tmp_path / "cpu/test/kubepods" / path / "cpu.shares").read_text()

    assert (shares(""), shares("burstable"), shares("besteffort")) == ("2048", "512", "2")
    await cgroups.weigh([])
    assert shares("burstable") == "2"


RESERVING = replace(
    CONFIG,
    enforce_node_allocatable=("pods", "system-reserved", "kube-reserved-compressible"),
    system_reserved={"cpu": "500m", "memory": "1Gi", "pid": "100"},
    kube_reserved={"cpu": "250m", "memory": "1Gi"},
    system_reserved_cgroup="/system",
    kube_reserved_cgroup="/kube",
)


async def test_what_is_reserved_is_a_limit_too(tmp_path: Path) -> None:
    for controller in ("cpu", "memory", "pids"):
        for name in ("system", "kube"):
            (_v1(tmp_path) if not (tmp_path / "cpu").exists() else tmp_path).joinpath(controller, name).mkdir(parents=True)
    cgroups = Cgroups(RESERVING, tmp_path, lambda: {"cpu": "3"}, pods_memory=4 << 30, pods_pids=1000)

    notes = await cgroups.enforce()

    assert (tmp_path / "cpu/test/kubepods/cpu.shares").read_text() == "3072"
    assert (tmp_path / "pids/test/kubepods/pids.max").read_text() == "1000"
    assert (tmp_path / "memory/test/kubepods/memory.limit_in_bytes").read_text() == str(4 << 30)
    assert (tmp_path / "cpu/system/cpu.shares").read_text() == "512"
    assert (tmp_path / "memory/system/memory.limit_in_bytes").read_text() == str(1 << 30)
    assert (tmp_path / "pids/system/pids.max").read_text() == "100"
    assert (tmp_path / "cpu/kube/cpu.shares").read_text() == "256"
    assert not list((tmp_path / "memory/kube").iterdir()), "memory cannot be had back"
    assert notes == [
        "Updated Node Allocatable limit across pods",
        "Updated limits on system reserved cgroup /system",
        "Updated limits on kube reserved cgroup /kube",
    ]


async def test_a_reserved_cgroup_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match='Failed to enforce System Reserved Cgroup Limits on "/system"'):
        await Cgroups(RESERVING, _v1(tmp_path)).enforce()


async def test_who_owns_cpus_is_not_held_to_a_quota(tmp_path: Path) -> None:
    cgroups = Cgroups(CONFIG, _v1(tmp_path), unlimited=lambda wanted: True)
    parent = await cgroups.ensure(pod(containers=[LIMITED]))
    assert (tmp_path / "cpu" / parent[1:] / "cpu.cfs_quota_us").read_text() == "-1"
