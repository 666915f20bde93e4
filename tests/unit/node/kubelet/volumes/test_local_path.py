"""Directories of local-path volumes: made, deleted on request, and nothing else is ever touched."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apimachinery.objects import local_path
from client.informer import Informer
from component.clock import FakeClock
from node.kubelet.volumes.local_path import LocalPaths, inside
from tests.support.storage import make_volume


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


async def test_directories_come_and_go_with_what_volumes_say(tmp_path: Path) -> None:
    root, precious = tmp_path / "volumes", tmp_path / "precious"
    precious.mkdir()
    held, client = Informer("volumes"), Writes()
    await held.replace([make_volume("v", local={"path": str(root / "v")})])
    run = asyncio.ensure_future(LocalPaths(client, held, root, "node-1", FakeClock()).run())  # type: ignore[arg-type]
    await until((root / "v").is_dir)
    assert (root / "v").stat().st_mode & 0o777 == 0o777
    (root / "v/file").write_text("x")
    (root / "v/link").symlink_to(precious)
    marked = {local_path.DELETE: "true"}
    outside = make_volume("w", local={"path": str(precious)}, annotations=marked)
    await held.apply([("MODIFIED", make_volume("v", local={"path": str(root / "v")}, annotations=marked)), ("ADDED", outside)])
    await until(lambda: client.noted == ["v,w"])  # what is not ours to delete is none of the provisioner's any more
    assert not (root / "v").exists()
    assert precious.is_dir()
    await held.apply([("DELETED", outside), ("DELETED", make_volume("v", annotations=marked))])
    await until(lambda: client.noted == ["v,w", None])
    run.cancel()


@pytest.mark.parametrize("path", ["/a", "/a/b/c", "/a/../b", "a/b", "/a/b/../../etc", "/other/b", ""])
def test_what_lies_elsewhere_is_left_alone(path: str) -> None:
    assert inside(Path("/a"), path) is None
    assert inside(Path("/a"), "/a/b") == Path("/a/b")
