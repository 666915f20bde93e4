"""Files of variables: what is read, and what is refused with which words."""

from pathlib import Path
from typing import Any

import pytest

from node.kubelet.interface import Mount, VolumeError
from node.kubelet.runtime import env
from node.kubelet.runtime.env_file import FormatError, value_of
from node.kubelet.volumes import subpath
from tests.support.pod_workers import Objects, container, pod

FILE = """
# a comment
  A='1 2'  # and one more
B='first
  second'
C= 'nothing'
D='#kept'
"""


@pytest.mark.parametrize(("name", "value"), [("A", "1 2"), ("B", "first\n  second"), ("C", ""), ("D", "#kept"), ("E", "")])
def test_values(name: str, value: str) -> None:
    assert value_of(FILE, name) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A", "at line 1: missing '='"),
        ("='a'", "at line 1: empty variable name"),
        ("\nA ='a'", "at line 2: whitespace before '=' is not allowed"),
        ("A=a", "at line 1: value must be enclosed in single quotes"),
        ("A='a", "starting at line 1: unclosed single quote"),
        ("A='a' b", "at line 1: unexpected content after closing quote"),
    ],
)
def test_what_is_not_understood_is_said(text: str, why: str) -> None:
    with pytest.raises(FormatError) as refused:
        value_of(text, "Z")
    assert str(refused.value) == f"invalid environment variable format {why}"


def _given(**more: Any) -> dict[str, Any]:
    reference = {"volumeName": "v", "path": "f", "key": "A", **more}
    return container(env=[{"name": "X", "valueFrom": {"fileKeyRef": reference}}])


async def test_a_container_reads_what_another_wrote(tmp_path: Path) -> None:
    async def read(volume: str, path: str) -> bytes | None:
        return subpath.read(Mount(tmp_path), path)

    async def made(**more: Any) -> dict[str, str]:
        return await env.environment(pod(), _given(**more), Objects(), [], {}, read)

    with pytest.raises(env.EnvError, match='file "f" not found in volume "v"'):
        await made()
    assert await made(optional=True) == {}
    (tmp_path / "f").write_text("A='1'")
    assert await made() == {"X": "1"}
    with pytest.raises(env.EnvError, match='environment variable key "B" not found in file "f"'):
        await made(key="B")
    assert await made(key="B", optional=True) == {}


def test_no_file_outside_of_the_volume_is_read(tmp_path: Path) -> None:
    inside = tmp_path / "volume"
    inside.mkdir()
    (tmp_path / "secret").write_text("A='1'")
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "folder").mkdir()
    with pytest.raises(VolumeError, match="leads outside of the volume"):
        subpath.read(Mount(inside), "link")
    with pytest.raises(VolumeError, match="is not a regular file"):
        subpath.read(Mount(inside), "folder")
    (inside / "large").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(VolumeError, match="is larger than"):
        subpath.read(Mount(inside), "large")
