import os
from pathlib import Path

import pytest

from node.kubelet.volumes import mounts

MOUNTINFO = r"""
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /pods/u1/volumes/a rw - tmpfs tmpfs rw
31 22 0:26 / /pods/u10/volumes/a rw - tmpfs tmpfs rw
32 22 8:1 /x /pods/u1/volumes/with\040space rw master:2 - ext4 /dev/sda1 rw
33 30 8:1 /y /pods/u1 rw - ext4 /dev/sda1 rw
""".strip()


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("/pods/u1", ["/pods/u1/volumes/a", "/pods/u1/volumes/with space", "/pods/u1"]),
        ("/pods/u1/volumes/with space", ["/pods/u1/volumes/with space"]),
        ("/pods/u2", []),
        ("/", ["/", "/pods/u1/volumes/a", "/pods/u10/volumes/a", "/pods/u1/volumes/with space", "/pods/u1"]),
    ],
)
def test_mountinfo(within: str, expected: list[str]) -> None:
    assert [point for point, _ in mounts.parse_mountinfo(MOUNTINFO, within)] == expected


def test_removal_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").touch()
    tree = tmp_path / "tree"
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/link").symlink_to(tmp_path / "outside")
    (tree / "file").touch()
    mounts.remove_tree(tree)
    assert os.listdir(tmp_path) == ["outside"]
    assert (tmp_path / "outside/precious").exists()
    mounts.remove_tree(tree)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_removal_refuses_to_enter_a_mount(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/precious").touch()
    inner = tmp_path / "tree/inner"
    inner.mkdir(parents=True)
    mounts.bind(str(tmp_path / "data"), str(inner))
    try:
        with pytest.raises(OSError, match="is a mount"):
            mounts.remove_tree(tmp_path / "tree")
    finally:
        mounts.unmount_below(tmp_path)
    assert (tmp_path / "data/precious").exists()
    mounts.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
