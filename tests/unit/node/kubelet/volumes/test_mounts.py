import os
from pathlib import Path

import pytest

from node.kubelet.volumes import mounts


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
