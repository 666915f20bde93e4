"""Signals come out of the kernel's files as upstream computes them; what cannot be read is left out."""

from pathlib import Path

from node.kubelet.eviction import signals
from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.signals import Observation, Places

MEMINFO = "MemTotal:  1000 kB\nMemFree:  300 kB\nInactive(file): 200 kB\nSReclaimable: 50 kB\n"


def test_memory_is_the_capacity_less_the_working_set() -> None:
    assert signals.memory(MEMINFO, 600 * 1024) == Observation(400 * 1024, 1000 * 1024)
    assert signals.memory(MEMINFO) == Observation(550 * 1024, 1000 * 1024)


def test_the_working_set_leaves_out_pages_that_the_kernel_gives_up_first(tmp_path: Path) -> None:
    (tmp_path / "memory" / "kubepods").mkdir(parents=True)
    (tmp_path / "memory" / "kubepods" / "memory.usage_in_bytes").write_text("5000\n")
    (tmp_path / "memory" / "kubepods" / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 2000\n")

    assert signals.pods_working_set(tmp_path, "/kubepods") == 3000
    assert signals.pods_working_set(tmp_path, "/elsewhere") is None


def test_the_second_version_of_cgroups_is_read_by_its_own_names(tmp_path: Path) -> None:
    (tmp_path / "kubepods").mkdir()
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "kubepods" / "memory.current").write_text("5000\n")
    (tmp_path / "kubepods" / "memory.stat").write_text("anon 1\ninactive_file 500\n")

    assert signals.pods_working_set(tmp_path, "kubepods") == 4500


def test_processes_are_bounded_by_the_smaller_limit() -> None:
    assert signals.processes("4194304\n", "1000\n", "0.1 0.2 0.3 2/400 12345\n") == Observation(600, 1000)


def test_this_machine_tells_everything(tmp_path: Path) -> None:
    seen = signals.read(Places(tmp_path, lambda: tmp_path, lambda: 300, lambda: 1000))

    assert seen[t.ALLOCATABLE_MEMORY] == Observation(700, 1000)
    assert {t.MEMORY, t.NODEFS, t.NODEFS_INODES, t.IMAGEFS, t.IMAGEFS_INODES, t.PID} <= set(seen)
    assert all(0 <= each.available <= each.capacity for each in seen.values())
    assert not signals.dedicated_image_fs(tmp_path, tmp_path)


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert signals.read(Places(nowhere, lambda: nowhere, proc=nowhere, cgroup=nowhere)) == {}
    assert not signals.dedicated_image_fs(tmp_path, None)
    assert not signals.dedicated_image_fs(tmp_path, nowhere)
