"""The controller: one loop over resources, each with at most one migration that runs.

Every object is applied as it is, empty but for its uid and resourceVersion: the API server writes it again if what it stores is
not in the form that it would store now. An object that changes meanwhile is in that form already.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, clone, creation_time, is_deleting, name_of, namespace_of, resource_version, uid_of
from apimachinery.resources import STORAGE_VERSION_MIGRATIONS
from client.rest import APPLY, is_conflict
from component import logs
from controlplane.controllers.controller import Environment, Loop, NotYetError
from controlplane.controllers.lib.discovery import Resource, discover, list_metadata
from controlplane.controllers.lib.freshness import PAUSE_SECONDS, Written
from controlplane.controllers.storageversionmigrator import turns
from controlplane.controllers.storageversionmigrator.definitions import Definitions

_PATIENCE = timedelta(minutes=1)
"""How long a resource may be unknown to discovery: a definition is not served at once."""
_PAGE = "500"
_PASSING = frozenset((429, 500, 503, 504))
_log = logs.get(__name__)


class StorageVersionMigrator:
    """Woken by migrations."""

    name = "storage-version-migrator-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._migrations = env.watch(STORAGE_VERSION_MIGRATIONS)
        self._written = Written(self._migrations.lister, env.clock)
        self._definitions = Definitions(env.client, env.clock)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._migrations.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new), on_delete=self._changed)

    async def run(self) -> None:
        await self._loop.run()

    def _changed(self, migration: Object) -> None:
        self._loop.add(turns.resource_of(migration))

    async def reconcile(self, key: str) -> float | None:
        """``key`` is a resource. Raises what is worth another try."""
        if not self._written.seen(key):
            return PAUSE_SECONDS
        cached = turns.next_of(each for each in self._migrations.lister.list() if turns.resource_of(each) == key)
        if cached is None or is_deleting(cached):
            return None
        migration = clone(cached)
        if not turns.is_running(migration):
            await self._definitions.begin(key, name_of(migration))
            turns.begin(migration, self._clock.now())
            migration = await self._write(migration)
        try:
            failure = await self._migrate(migration, key)
        except _FailedError as error:
            failure = str(error)
        await self._definitions.end(key, succeeded=failure is None)
        turns.end(migration, failure, self._clock.now())
        await self._write(migration)
        _log.info("Migration ended", migration=name_of(migration), resource=key, failure=failure or "")
        return None  # the change of its status wakes the next one's turn

    async def _migrate(self, migration: Object, key: str) -> str | None:
        """Returns what went wrong for good."""
        resource = await self._resource(migration, key)
        checkpoint = str((migration.get("status") or {}).get("resourceVersion") or "")
        if not checkpoint:
            first = await list_metadata(self._client, resource.gvr, limit="1")
            checkpoint = str(first["metadata"]["resourceVersion"])
            turns.go_on(migration, checkpoint, self._clock.now())
            migration.update(await self._write(migration))
        async for obj in self._objects(resource.gvr):
            if int(resource_version(obj)) <= int(checkpoint):
                await self._rewrite(resource, obj)
        return None

    async def _resource(self, migration: Object, key: str) -> Resource:
        """Raises _FailedError if there is no such resource."""
        found = next((each for each in (await discover(self._client)).resources if each.gvr.group_resource == key), None)
        if found is not None:
            return found
        made = creation_time(migration)
        if made is not None and made + _PATIENCE > self._clock.now():
            raise NotYetError(f"{key} does not exist in discovery")
        raise _FailedError("unable to obtain GVR from discovery")

    async def _objects(self, gvr: GroupVersionResource) -> AsyncIterator[Object]:
        token = ""
        while True:
            query = {"limit": _PAGE, **({"continue": token} if token else {})}
            page = await list_metadata(self._client, gvr, **query)
            for obj in page.get("items") or ():
                yield obj
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    async def _rewrite(self, resource: Resource, obj: Object) -> None:
        # the uid keeps an object that is gone from being made anew; the version one that was made again from being touched
        metadata = {"name": name_of(obj), "uid": uid_of(obj), "resourceVersion": resource_version(obj)}
        body: dict[str, Any] = {"apiVersion": resource.gvr.api_version, "kind": resource.kind, "metadata": metadata}
        namespace = namespace_of(obj) or None
        try:
            await self._client.patch(resource.gvr, name_of(obj), body, APPLY, namespace, field_manager=self.name)
        except StatusError as error:
            if is_conflict(error):
                return  # changed since, gone, or made anew
            if error.code in _PASSING:
                raise
            raise _FailedError(error.message) from error

    async def _write(self, migration: Object) -> Object:
        written = await self._client.update_status(STORAGE_VERSION_MIGRATIONS, migration)
        self._written.note(turns.resource_of(migration), written)
        return written


class _FailedError(Exception):
    """Nothing that another try could cure."""
