"""A container that swaps links under a subPath while it is bound (CVE-2017-1002101, CVE-2021-25741) reaches nothing outside."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node.kubelet.interface import Mount, VolumeError
from node.kubelet.volumes import mounts, subpath

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="bind mounts need root")
_AT_FDCWD, _EXCHANGE = -100, 2


def exchange(one: Path, other: Path) -> None:
    """Swap two names in one step: what a hostile container can do in a tight loop."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[list[int]]:
    """Swaps them as often as it can; yields how often so far."""
    stop, count = threading.Event(), [0]

    def run() -> None:
        while not stop.is_set():
            exchange(one, other)
            count[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("path", ["way", "way/deep", "way/deep/file"])
def test_no_swap_leads_out_of_the_volume(tmp_path: Path, path: str) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    for folder, text in ((volume / "way", "inside"), (outside, "secret")):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep/file").write_text(text)
    (volume / "trap").symlink_to(outside)
    bound = 0
    with swapping(volume / "way", volume / "trap") as swaps:
        for number in range(150):
            target = tmp_path / "targets" / str(number)
            try:
                found = subpath.prepare(Mount(volume), path, target)
            except (VolumeError, FileNotFoundError):
                continue  # caught in the act
            bound += 1
            try:
                seen = [found] if found.is_file() else [file for file in found.rglob("*") if file.is_file()]
                assert [file.read_text() for file in seen] == ["inside"]
            finally:
                mounts.unmount(found)
    assert swaps[0] > 100
    assert bound, "it never got through, so nothing was tried"


def test_what_is_missing_is_not_made_outside(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "way").mkdir(parents=True)
    outside.mkdir()
    (volume / "trap").symlink_to(outside)
    with swapping(volume / "way", volume / "trap"):
        for number in range(150):
            try:
                mounts.unmount(subpath.prepare(Mount(volume), f"way/new-{number}/deeper", tmp_path / "targets" / str(number)))
            except (VolumeError, FileNotFoundError):
                continue
    assert list(outside.iterdir()) == []
