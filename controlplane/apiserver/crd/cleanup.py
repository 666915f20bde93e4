"""The end of a CustomResourceDefinition: all its instances are deleted, and its finalizer goes when none is left.

Called by ``lifecycle`` in a task for each definition. Follows k8s.io/apiextensions-apiserver ``pkg/controller/finalizer``.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from component import logs
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.crd import conditions
from controlplane.apiserver.crd.conditions import FINALIZER
from controlplane.apiserver.crd.definition import ESTABLISHED, TERMINATING
from controlplane.apiserver.crd.store import CustomStore
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.registry.update import STATUS
from controlplane.apiserver.storage.interface import Entry, ListOptions

Object = dict[str, Any]

PATIENCE = 60.0  # seconds until a definition says that instances remain
POLL_SECONDS = 0.5
RETRY_SECONDS = 5.0
AT_ONCE = 8
_KEPT_APART = frozenset({"apiservices.apiregistration.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"})
"""Kinds that are built in and stored where a custom resource of the same name would be: those are not instances."""
_log = logs.get(__name__)


async def _no_admission(obj: Object, old: Object | None) -> None:
    """Upstream deletes instances at the store, past admission, too."""


class Cleanup:
    def __init__(self, definitions: Store, instances: Callable[[str], CustomStore | None], now: Callable[[], datetime]) -> None:
        """``instances(name)`` is the store of a definition's objects; None when the definition is gone."""
        self._store, self._instances, self._now = definitions, instances, now

    async def run(self, name: str) -> None:
        """Until the finalizer is gone, or the definition."""
        while True:
            try:
                if await self._once(name):
                    return
            except StatusError as problem:
                if problem.code == 404:
                    return
                _log.warning("Cannot clean up a definition, trying again", name=name, err=problem)
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self, name: str) -> bool:
        progress = _terminating(True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        crd = await self._say(name, progress)
        if name in _KEPT_APART:
            text = "instances overlap with built-in resources in storage"
            await self._finish(name, _terminating(False, "OverlappingBuiltInResource", text))
            return True
        if not conditions.is_true(crd.get("status") or {}, ESTABLISHED):
            await self._finish(name, _terminating(False, "NeverEstablished", "resource was never established"))
            return True
        trouble = await self._delete_instances(name)
        if trouble is not None:
            await self._say(name, trouble)
            return False
        await self._finish(name, _terminating(False, "InstanceDeletionCompleted", "removed all instances"))
        return True

    async def _delete_instances(self, name: str) -> Object | None:
        """None when none is left, or the condition that says what went wrong."""
        store = self._instances(name)
        if store is None:  # not known here at the moment, which does not mean that there are none
            return _terminating(True, "InstanceDeletionFailed", "could not list instances: they are not served")
        gate = asyncio.Semaphore(AT_ONCE)
        outcomes = await asyncio.gather(*(self._delete(store, entry, gate) for entry in await self._all(store)))
        if why := next(filter(None, outcomes), ""):
            return _terminating(True, "InstanceDeletionFailed", f"could not issue all deletes: {why}")
        return await self._wait(store)

    async def _all(self, store: CustomStore) -> list[Entry]:
        """As they are stored: a webhook that would convert them may be gone already."""
        return list((await store.objects.list(store.prefix, ListOptions())).entries)

    async def _delete(self, store: CustomStore, entry: Entry, gate: asyncio.Semaphore) -> str:
        """What went wrong."""
        parts = entry.key.removeprefix(store.prefix).split("/")
        ctx = Context(SERVER, parts[0] if store.info.namespaced else "", parts[-1], "delete", self._now())
        async with gate:
            try:
                await store.delete(ctx, {}, _no_admission)
            except StatusError as problem:
                return "" if problem.code == 404 else str(problem)
        return ""

    async def _wait(self, store: CustomStore) -> Object | None:
        for _ in range(round(PATIENCE / POLL_SECONDS)):
            if not await self._all(store):
                return None
            await asyncio.sleep(POLL_SECONDS)
        text = "could not confirm zero CustomResources remaining: timed out waiting for the condition"
        return _terminating(True, "InstanceDeletionCheck", text)

    async def _say(self, name: str, condition: Object) -> Object:
        async def change(stored: Object) -> Object | None:
            if not _leaving(stored):
                return None
            return {**stored, "status": conditions.put(stored.get("status") or {}, condition, self._now())}

        return await self._update(name, change)

    async def _finish(self, name: str, condition: Object) -> None:
        async def change(stored: Object) -> Object | None:
            if not _leaving(stored):
                return None
            meta = stored["metadata"]
            kept = [one for one in meta.get("finalizers") or () if one != FINALIZER]
            status = conditions.put(stored.get("status") or {}, condition, self._now())
            return {**stored, "metadata": {**meta, "finalizers": kept}, "status": status}

        await self._update(name, change)

    async def _update(self, name: str, change: Any) -> Object:
        ctx = Context(SERVER, "", name, "update", self._now(), "status", field_manager="kube-apiserver")
        entry, _ = await self._store.update(ctx, change, _no_admission, STATUS)
        return entry.decode()


def _leaving(crd: Object) -> bool:
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and FINALIZER in (meta.get("finalizers") or ())


def _terminating(status: bool, reason: str, message: str) -> Object:
    return conditions.condition(TERMINATING, status, reason, message)
