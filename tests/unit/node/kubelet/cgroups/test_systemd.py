"""Slices: names, what systemd is told, and which are stopped. The real systemd is asked in the virtual machine (``make vm``)."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from node.kubelet.cgroups import plan, systemd
from node.kubelet.cgroups.manager import Cgroups
from node.kubelet.config import KubeletConfig
from tests.support.pod_workers import container, pod

LIMITED = container(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "503m", "memory": "64Mi"}})
BURSTABLE = "test.slice/test-kubepods.slice/test-kubepods-burstable.slice"
POD = "test-kubepods-burstable-poduid_web.slice"


@pytest.mark.parametrize(
    ("cgroup", "name", "path"),
    [
        ("/kubepods", "kubepods.slice", "/kubepods.slice"),
        ("/kubepods/poda-b", "kubepods-poda_b.slice", "/kubepods.slice/kubepods-poda_b.slice"),
        ("/my-root/kubepods", "my_root-kubepods.slice", "/my_root.slice/my_root-kubepods.slice"),
        ("/own.slice/kubepods", "own-kubepods.slice", "/own.slice/own-kubepods.slice"),
    ],
)
def test_names(cgroup: str, name: str, path: str) -> None:
    assert systemd.slice_name(PurePosixPath(cgroup)) == name
    assert str(systemd.slice_path(PurePosixPath(cgroup))) == path


def test_uids_come_back() -> None:
    assert systemd.uid_of_slice("kubepods-burstable-poda_b.slice") == "a-b"
    assert systemd.uid_of_slice("kubepods-burstable.slice") is None
    assert systemd.uid_of_slice("cri-containerd-poda.scope") is None


def test_limits_in_systemds_words() -> None:
    limits = plan.Limits(1024, 50_300, 1 << 20, 10)
    told = {name: value for name, _, value in systemd.properties(limits, 2)}
    assert told["CPUQuotaPerSecUSec"] == 510_000  # whole percents, never less than was asked for
    assert (told["CPUWeight"], told["MemoryMax"], told["TasksMax"]) == (39, 1 << 20, 10)
    old = {name: value for name, _, value in systemd.properties(limits, 1)}
    assert (old["CPUShares"], old["MemoryLimit"]) == (1024, 1 << 20)
    assert {"CPUWeight", "MemoryMax", "IOAccounting"}.isdisjoint(old)


class Machine:
    """systemd's part: folders under a hierarchy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, str]] = []
        (root / "cgroup.controllers").write_text("cpu memory pids")

    async def make(self, name: str, properties: Sequence[systemd.Property]) -> None:
        self.asked.append(("make", name))
        words = name.removesuffix(".slice").split("-")
        folder = self.root.joinpath(*("-".join(words[: end + 1]) + ".slice" for end in range(len(words))))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").touch()

    async def stop(self, name: str) -> None:
        self.asked.append(("stop", name))


async def test_the_pods_slice_is_systemds_to_make(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    cgroups = Cgroups(KubeletConfig(cgroup_root="/test", cgroup_driver="systemd"), tmp_path, slices=machine)
    parent = await cgroups.ensure(pod(containers=[LIMITED]))
    assert parent == f"/{BURSTABLE}/{POD}"
    assert (tmp_path / parent[1:] / "cpu.max").read_text() == "50300 100000"
    assert list(await cgroups.present()) == ["uid-web"]
    (tmp_path / parent[1:] / "cpu.max").unlink()
    await cgroups.remove("uid-web")
    assert machine.asked == [("make", POD), ("stop", POD)]
    assert list(await cgroups.present()) == []
    await cgroups.remove("uid-web")
    assert len(machine.asked) == 2


async def test_classes_are_weighed_as_slices(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    config = KubeletConfig(cgroup_root="/test", cgroup_driver="systemd")
    await Cgroups(config, tmp_path, lambda: {"cpu": "2"}, slices=machine).weigh([])
    names = ["test-kubepods.slice", "test-kubepods-burstable.slice", "test-kubepods-besteffort.slice"]
    assert machine.asked == [("make", name) for name in names]


def test_a_quota_of_another_period_and_none_at_all() -> None:
    def quota(limits: plan.Limits) -> int:
        return next(value for name, _, value in systemd.properties(limits, 2) if name == "CPUQuotaPerSecUSec")

    assert quota(plan.Limits(quota=5_000, period=10_000)) == 500_000
    assert quota(plan.Limits(quota=-1)) == 2**64 - 1
