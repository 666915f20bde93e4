"""Keeps the RBAC objects at hand for the authorizer: one watch per kind on the caches, no decode per request."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.errors import StatusError
from component import logs
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.storage.interface import ListOptions, WatchOptions

Object = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
_RESOURCES = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
_RETRY_SECONDS = 1.0
_log = logs.get(__name__)


class RoleIndex:
    """A ``RoleSource``. Run :meth:`follow` for as long as the server lives; changes arrive within one turn of the loop."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self._stores = {name: stores[f"{name}.{GROUP}"] for name in _RESOURCES if f"{name}.{GROUP}" in stores}
        self._held: dict[str, dict[str, Object]] = {name: {} for name in _RESOURCES}
        self.generation = 0
        self._changed = asyncio.Event()

    def roles(self) -> Iterable[Object]:
        return self._held["roles"].values()

    def cluster_roles(self) -> Iterable[Object]:
        return self._held["clusterroles"].values()

    def role_bindings(self) -> Iterable[Object]:
        return self._held["rolebindings"].values()

    def cluster_role_bindings(self) -> Iterable[Object]:
        return self._held["clusterrolebindings"].values()

    async def caught_up(self) -> None:
        """Waits until every role and binding that was stored before the call is at hand."""
        stored = {}
        for name, store in self._stores.items():
            stored[name] = {entry.key for entry in (await store.list("", ListOptions())).entries}
        while not all(keys <= self._held[name].keys() for name, keys in stored.items()):
            self._changed.clear()
            await self._changed.wait()

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, store in self._stores.items():
                tasks.create_task(self._follow_one(name, store), name=f"rbac-{name}")

    async def _follow_one(self, name: str, store: Store) -> None:
        while True:
            try:
                await self._read(name, store)
            except StatusError as problem:
                _log.warning("Cannot follow RBAC objects, trying again", resource=name, err=problem)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self, name: str, store: Store) -> None:
        """From the present state on, until the watch ends."""
        watch = await store.watch("", WatchOptions())
        fresh: dict[str, Object] = {}
        try:
            while frames := await watch.batch():
                for frame in frames:
                    if frame.type == "DELETED":
                        fresh.pop(frame.entry.key, None)
                    elif frame.type in ("ADDED", "MODIFIED"):
                        fresh[frame.entry.key] = frame.entry.decode()
                self._held[name] = fresh
                self.generation += 1
                self._changed.set()
        finally:
            watch.close()
