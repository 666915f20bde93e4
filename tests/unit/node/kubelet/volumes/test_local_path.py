"""Directories of local-path volumes: made, deleted on request, and nothing else is ever touched."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apimachinery.objects import local_path
from client.informer import Informer
from component.clock import FakeClock
from node.kubelet.volumes.local_path import LocalPaths, inside, make


def node(version: int, **annotations: str) -> dict[str, Any]:
    named = {getattr(local_path, key): value for key, value in annotations.items()}
    return {"metadata": {"name": "node-1", "uid": "n", "resourceVersion": str(version), "annotations": named}}


class Writes:
    """A client that notes its patches."""

    def __init__(self) -> None:
        self.noted: list[Any] = []

    async def patch(self, resource: Any, name: str, body: dict[str, Any]) -> None:
        self.noted.append(body["metadata"]["annotations"][local_path.DELETED])


async def until(wanted: Any) -> None:
    async with asyncio.timeout(2):
        while not wanted():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_directories_are_deleted_when_that_is_asked_and_told(tmp_path: Path) -> None:
    root, precious = tmp_path / "volumes", tmp_path / "precious"
    for folder in (root / "v", root / "w", precious):
        folder.mkdir(parents=True)
    (root / "v/link").symlink_to(precious)
    held, client = Informer("nodes"), Writes()
    await held.replace([node(1, DELETE="v/../precious/..")])
    run = asyncio.ensure_future(LocalPaths(client, held, root, "node-1", FakeClock()).run())  # type: ignore[arg-type]
    await until(lambda: client.noted == ["precious/v"])  # names alone count: what is elsewhere is not ours to find
    assert not (root / "v").exists()
    assert precious.is_dir()
    assert (root / "w").is_dir()
    await held.apply([("MODIFIED", node(2, DELETE="v/../precious/..", DELETED="precious/v"))])
    await held.apply([("MODIFIED", node(3, DELETED="precious/v"))])
    await until(lambda: client.noted == ["precious/v", None])
    run.cancel()


def test_a_directory_is_made_once_for_everybody(tmp_path: Path) -> None:
    make(tmp_path / "volumes", str(tmp_path / "volumes/v"))
    assert (tmp_path / "volumes/v").stat().st_mode & 0o777 == 0o777
    (tmp_path / "volumes/v").chmod(0o700)  # somebody's choice, which stays
    make(tmp_path / "volumes", str(tmp_path / "volumes/v"))
    assert (tmp_path / "volumes/v").stat().st_mode & 0o777 == 0o700
    make(tmp_path / "volumes", str(tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("path", ["/a", "/a/b/c", "/a/../b", "a/b", "/a/b/../../etc", "/other/b", ""])
def test_what_lies_elsewhere_is_left_alone(path: str) -> None:
    assert inside(Path("/a"), path) is None
    assert inside(Path("/a"), "/a/b") == Path("/a/b")
