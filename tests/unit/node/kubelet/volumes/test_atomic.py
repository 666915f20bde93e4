import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from node.kubelet.interface import VolumeError
from node.kubelet.volumes import atomic
from node.kubelet.volumes.atomic import File

NOW = datetime(2026, 11, 30, 11, 29, 38, 123456, tzinfo=UTC)


def links_followed(target: Path) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(target):
        if not name.startswith(".."):
            path = target / name
            files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
            found |= {str(file.relative_to(target)): file.read_bytes() for file in files}
    return found


def test_files_appear_through_data_link(tmp_path: Path) -> None:
    assert atomic.write(tmp_path, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o400)}, now=NOW)
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "..data").startswith("..2026_11_30_11_29_38.")
    assert links_followed(tmp_path) == {"a": b"1", "d/b": b"2"}
    assert stat.S_IMODE((tmp_path / "d/b").stat().st_mode) == 0o400


def test_same_payload_changes_nothing(tmp_path: Path) -> None:
    payload = {"a": File(b"1", 0o644)}
    atomic.write(tmp_path, payload, now=NOW)
    before = os.readlink(tmp_path / "..data")
    assert not atomic.write(tmp_path, payload, now=NOW + timedelta(seconds=1))
    assert os.readlink(tmp_path / "..data") == before


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"a": File(b"2", 0o644)}, id="content"),
        pytest.param({"a": File(b"1", 0o755)}, id="mode"),
        pytest.param({"b": File(b"1", 0o644)}, id="renamed"),
        pytest.param({}, id="emptied"),
        pytest.param({"a/b": File(b"1", 0o644)}, id="file becomes directory"),
    ],
)
def test_new_payload_replaces_all_of_the_old(tmp_path: Path, second: atomic.Payload) -> None:
    atomic.write(tmp_path, {"a": File(b"1", 0o644)}, now=NOW)
    assert atomic.write(tmp_path, second, now=NOW + timedelta(seconds=1))
    assert links_followed(tmp_path) == {path: file.content for path, file in second.items()}
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..2")]) == 1


def test_left_overs_of_a_crash_are_cleared(tmp_path: Path) -> None:
    atomic.write(tmp_path, {"a": File(b"1", 0o644)}, now=NOW)
    os.symlink("..nowhere", tmp_path / "..data_tmp")
    (tmp_path / "..2026_01_01_00_00_00.5").mkdir()
    atomic.write(tmp_path, {"a": File(b"2", 0o644)}, now=NOW)
    assert links_followed(tmp_path) == {"a": b"2"}
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("..d")) == ["..data"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "..data", "", "a" * 256])
def test_paths_that_leave_the_volume_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(VolumeError):
        atomic.write(tmp_path, {path: File(b"", 0o644)}, now=NOW)
    assert not os.listdir(tmp_path)


def test_target_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match="link"):
        atomic.write(tmp_path / "link", {"a": File(b"", 0o644)}, now=NOW)
