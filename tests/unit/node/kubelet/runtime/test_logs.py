"""Rotation of container logs."""

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from component.clock import FakeClock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.fake import FakeContainerd
from node.kubelet.runtime import files, names
from node.kubelet.runtime.logs import LogRotator, prepare
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State
from node.kubelet.runtime.termination import read_message


class _Reopening(FakeContainerd):
    async def reopen_container_log(self, container_id: str) -> None:
        """Here no container is really there."""


async def _rotate(tmp_path: Path, runtime: FakeContainerd) -> Path:
    log = tmp_path / "0.log"
    log.write_bytes(b"x" * 100)
    running = ObservedContainer("c", "main", "s", State.RUNNING, log_path=str(log))
    rotator = LogRotator(runtime, runtime.clock, lambda: {"u": ObservedPod("u", containers=(running,))}, 100, 3)
    task = asyncio.ensure_future(rotator.run())
    await asyncio.sleep(0)
    assert isinstance(runtime.clock, FakeClock)
    await runtime.clock.advance(10)
    for _ in range(150):
        await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.wait({task})
    return log


async def test_a_full_log_is_renamed_and_reopened(tmp_path: Path) -> None:
    runtime = _Reopening()
    log = await _rotate(tmp_path, runtime)
    assert not log.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["0.log.20260101-000010"]


async def test_a_log_that_cannot_be_reopened_keeps_its_name(tmp_path: Path) -> None:
    runtime = FakeContainerd()
    runtime.fail("reopen_container_log", errors.RuntimeServiceError("no"))
    log = await _rotate(tmp_path, runtime)
    assert log.exists()


def test_old_files_are_compressed_and_the_oldest_deleted(tmp_path: Path) -> None:
    for hour in range(4):
        (tmp_path / f"0.log.20260101-0{hour}0000").write_bytes(b"old")
    prepare(tmp_path / "0.log", 4)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["0.log.20260101-020000.gz", "0.log.20260101-030000.gz"]
    assert gzip.decompress((tmp_path / left[0]).read_bytes()) == b"old"


def test_what_a_pod_planted_among_the_logs_is_not_read(tmp_path: Path) -> None:
    """A pod may have the log directory as a hostPath; what the kubelet may read is not for it."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "0.log.20260101-000000").symlink_to(secret)
    os.mkfifo(folder / "0.log.20260101-010000")
    (folder / "0.log.20260101-020000").write_bytes(b"old")
    (folder / "0.log.20260101-020000.gz.tmp").symlink_to(secret)
    prepare(folder / "0.log", 10)
    assert secret.read_text() == "of the host"
    assert sorted(path.name for path in folder.iterdir()) == ["0.log.20260101-010000", "0.log.20260101-020000.gz"]
    assert gzip.decompress((folder / "0.log.20260101-020000.gz").read_bytes()) == b"old"


@pytest.mark.parametrize("planted", ["link", "pipe"])
async def test_last_words_are_not_those_of_the_host(tmp_path: Path, planted: str) -> None:
    (tmp_path / "secret").write_text("2026-11-30T11:29:38Z stdout F of the host\n")
    log = tmp_path / "0.log"
    log.symlink_to(tmp_path / "secret") if planted == "link" else os.mkfifo(log)
    annotations = {names.TERMINATION_MESSAGE_POLICY: "FallbackToLogsOnError"}
    assert await read_message(pb.ContainerStatus(exit_code=1, log_path=str(log), annotations=annotations)) == ""
    log.unlink()
    (tmp_path / "secret").rename(log)
    assert await read_message(pb.ContainerStatus(exit_code=1, log_path=str(log), annotations=annotations)) == "of the host\n"


def test_log_directories_remember_restarts(tmp_path: Path) -> None:
    assert files.make_log_dir(tmp_path, "main") == 0
    (tmp_path / "main" / "3.log").touch()
    (tmp_path / "main" / "2.log.20260101-000000.gz").touch()
    assert files.make_log_dir(tmp_path, "main") == 4
    files.remove_logs(tmp_path, "main", 2)
    assert [path.name for path in (tmp_path / "main").iterdir()] == ["3.log"]
