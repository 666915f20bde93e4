"""The metadata of one collection, for a reflector: all that garbage_collector and resource_quota need of most objects."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from apimachinery.gvk import GroupVersionResource
from client.rest import Client
from client.watch import Batch
from controlplane.controllers.lib.discovery import METADATA, METADATA_LIST


class MetadataSource:
    """One collection, metadata only."""

    def __init__(self, client: Client, gvr: GroupVersionResource) -> None:
        self._client, self._gvr = client, gvr

    async def list(self, *, resource_version: str, limit: int | None, continue_token: str | None) -> dict[str, Any]:
        version = resource_version if not continue_token else None
        return await self._client.list(
            self._gvr, limit=limit, resource_version=version, continue_token=continue_token, accept=METADATA_LIST
        )

    async def watch(self, *, resource_version: str, timeout_seconds: int) -> AsyncIterator[Batch]:
        watch = self._client.watch(
            self._gvr, resource_version=resource_version, timeout_seconds=timeout_seconds, bookmarks=True, accept=METADATA
        )
        async with watch, aclosing(watch.batches()) as batches:  # type: ignore[type-var]
            async for batch in batches:
                yield batch
