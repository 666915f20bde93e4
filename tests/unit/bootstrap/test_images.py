"""Image archives: reproducible, complete, and naming what is missing."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from bootstrap import images


def _read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}  # type: ignore[union-attr]


def test_the_archive_is_an_oci_layout_whose_digests_hold(tmp_path: Path) -> None:
    (tmp_path / "busybox").write_bytes(b"\x7fELF")
    image = images.busybox_image("docker.io/library/busybox:1.35", ["sh", "cat"], tmp_path / "busybox")
    images.write_archive([image], tmp_path / "a.tar")
    entries = _read(tmp_path / "a.tar")
    (described,) = json.loads(entries["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "docker.io/library/busybox:1.35"
    for name, data in entries.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    manifest = json.loads(entries[f"blobs/sha256/{described['digest'][7:]}"])
    config = json.loads(entries[f"blobs/sha256/{manifest['config']['digest'][7:]}"])
    assert config["config"]["Cmd"] == ["sh"]
    assert config["os"] == "linux"


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    image = images.Image("a/b:1", [images.File("x", b"1"), images.File("y", link="x")])
    images.write_archive([image], tmp_path / "1.tar")
    images.write_archive([image], tmp_path / "2.tar")
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()


def test_a_missing_binary_names_the_package() -> None:
    with pytest.raises(FileNotFoundError, match="apt-get install catatonit"):
        images.pause_image(catatonit=Path("/nonexistent/catatonit"))
