"""The stored objects of a custom resource: a watch cache that is loaded when somebody first asks for it.

A definition that nobody uses costs no cache. ``close`` ends the watches; their clients come back to whatever takes its place.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from apimachinery import errors
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.interface import (
    Condition,
    Entry,
    ListOptions,
    ListResult,
    Operation,
    Watch,
    WatchOptions,
)

Object = dict[str, Any]
Plan = Callable[[Object, Object], tuple[Sequence[Condition], Sequence[Operation]]]


class LazyObjects:
    """See ``storage.interface.ObjectStore``."""

    def __init__(self, make: Callable[[], Cacher], release: Callable[[Cacher], None]) -> None:
        """``make`` gives a cache that is not started, ``release`` closes it."""
        self._make, self._release = make, release
        self._cache: Cacher | None = None
        self._starting: asyncio.Task[Cacher] | None = None
        self._closed = False

    def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
        if self._cache is not None:
            self._release(self._cache)

    async def _started(self) -> Cacher:
        if self._cache is not None and self._starting is None:
            return self._cache
        if self._closed:
            raise errors.too_many_requests("storage is (re)initializing", 1)
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="custom-resource-cache")
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise errors.too_many_requests("storage is (re)initializing", 1) from None
            raise

    async def _start(self) -> Cacher:
        self._cache = cache = self._make()
        try:
            await cache.start()
        except BaseException:
            self._release(cache)
            self._cache = None
            raise
        finally:
            self._starting = None
        return cache

    # ------------------------------------------------------------------ see ObjectStore

    async def create(
        self, key: str, obj: Object, *, ttl: int = 0, conditions: Sequence[Condition] = (), also: Sequence[Operation] = ()
    ) -> Entry:
        return await (await self._started()).create(key, obj, ttl=ttl, conditions=conditions, also=also)

    async def get(self, key: str, resource_version: str = "") -> Entry:
        return await (await self._started()).get(key, resource_version)

    async def list(self, prefix: str, options: ListOptions) -> ListResult:
        return await (await self._started()).list(prefix, options)

    async def update(
        self, key: str, change: Callable[[Object], Object | None], *, ttl: int = 0, plan: Plan | None = None
    ) -> Entry:
        return await (await self._started()).update(key, change, ttl=ttl, plan=plan)

    async def delete(self, key: str, check: Callable[[Object], None] | None = None, *, also: Sequence[Operation] = ()) -> Entry:
        return await (await self._started()).delete(key, check, also=also)

    async def watch(self, prefix: str, options: WatchOptions) -> Watch:
        return await (await self._started()).watch(prefix, options)
