"""The directories of the local-path provisioner on this node: made when a volume names them, deleted when that is asked for.

The node's half of ``apimachinery.objects.local_path``; ``kubelet.py`` runs it. Nothing outside of the configured folder is
touched, whatever a volume says.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import annotations_of, name_of
from apimachinery.objects import local_path, volumes
from apimachinery.resources import NODES
from client.informer import Informer
from client.rest import Client
from component import logs
from component.clock import Clock
from node.kubelet.volumes import mounts

_RETRY = 5.0
_log = logs.get(__name__)


class LocalPaths:
    """``volumes`` holds the PersistentVolumes of this node and nothing else: one that leaves it no longer exists."""

    def __init__(self, client: Client, held: Informer, root: Path, node_name: str, clock: Clock) -> None:
        self._client, self._held, self._root = client, held, root
        self._node_name, self._clock = node_name, clock
        self._changed = asyncio.Event()
        self._told: str | None = None
        held.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new), on_delete=self._look)

    def _look(self, volume: dict[str, Any]) -> None:
        self._changed.set()

    async def run(self) -> None:
        await self._held.wait_synced()
        while True:
            self._changed.clear()
            try:
                await self._sync()
            except (OSError, StatusError) as error:
                _log.warning("Directories of local-path volumes are not as they should be", err=error)
                await self._clock.sleep(_RETRY)
                continue
            await self._changed.wait()

    async def _sync(self) -> None:
        deleted = set()
        for volume in self._held.lister.list():
            path = inside(self._root, str(volumes.source_of(volume)[1].get("path") or ""))
            if path is None:
                _log.warning("A local-path volume lies outside of the folder for them", volume=name_of(volume), folder=self._root)
            elif annotations_of(volume).get(local_path.DELETE) != "true":
                await asyncio.to_thread(_make, path)
                continue
            else:
                await asyncio.to_thread(mounts.remove_tree, path)
            if annotations_of(volume).get(local_path.DELETE) == "true":
                deleted.add(name_of(volume))
        text = local_path.deleted_text(frozenset(deleted))
        if text != self._told and (text or self._told is not None):
            body = {"metadata": {"annotations": {local_path.DELETED: text or None}}}
            await self._client.patch(NODES, self._node_name, body)
        self._told = text


def inside(root: Path, path: str) -> Path | None:
    """``path``, if it is a direct entry of ``root``; None otherwise. Pure."""
    candidate = Path(os.path.normpath(path))
    return candidate if path.startswith("/") and candidate.parent == root and ".." not in path.split("/") else None


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(0o777)  # whoever the pod runs as
