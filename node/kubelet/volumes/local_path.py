"""The directories of the local-path provisioner on this node: made when they are mounted, deleted when that is asked for.

The node's half of ``apimachinery.objects.local_path``; ``kubelet.py`` runs it, ``plugins/local.py`` calls :func:`make`. Nothing
outside of the configured folder is touched, whatever a volume or an annotation says.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.objects import local_path
from apimachinery.resources import NODES
from client.informer import Informer
from client.rest import Client
from component import logs
from component.clock import Clock
from node.kubelet.volumes import mounts

_RETRY = 5.0
_log = logs.get(__name__)


class LocalPaths:
    """``nodes`` holds this node alone."""

    def __init__(self, client: Client, nodes: Informer, root: Path, node_name: str, clock: Clock) -> None:
        self._client, self._nodes, self._root = client, nodes, root
        self._node_name, self._clock = node_name, clock
        self._changed = asyncio.Event()
        nodes.add_handler(on_add=lambda node: self._changed.set(), on_update=self._look)

    def _look(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if any(local_path.listed(old, key) != local_path.listed(new, key) for key in (local_path.DELETE, local_path.DELETED)):
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._sync()
            except (OSError, StatusError) as error:
                _log.warning("Directories of local-path volumes could not be deleted", err=error)
                await self._clock.sleep(_RETRY)
                self._changed.set()

    async def _sync(self) -> None:
        node = self._nodes.lister.get(self._node_name)
        if node is None:
            return
        wanted = local_path.listed(node, local_path.DELETE)
        for name in wanted:
            await asyncio.to_thread(mounts.remove_tree, self._root / name)
        if wanted != local_path.listed(node, local_path.DELETED):
            body = {"metadata": {"annotations": {local_path.DELETED: local_path.joined(wanted)}}}
            await self._client.patch(NODES, self._node_name, body)


def make(root: Path, path: str) -> None:
    """The directory of a volume, for whoever its pods run as. Nothing happens for one that is elsewhere, or there."""
    target = inside(root, path)
    if target is None:
        return
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        target.mkdir()
    except FileExistsError:
        return
    target.chmod(0o777)


def inside(root: Path, path: str) -> Path | None:
    """``path``, if it is a direct entry of ``root``; None otherwise. Pure."""
    candidate = Path(os.path.normpath(path))
    return candidate if path.startswith("/") and candidate.parent == root and ".." not in path.split("/") else None
