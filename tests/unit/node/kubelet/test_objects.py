"""Cached objects: one read for many pods, misses seen at once, and refreshing no more often than the API server can bear."""

import asyncio
from typing import Any, cast

import pytest

from apimachinery import errors as api_errors
from apimachinery.errors import StatusError
from client.rest import Client
from component.clock import FakeClock
from node.kubelet.objects import CachedObjects


class _Api:
    def __init__(self) -> None:
        self.reads: list[str] = []
        self.missing = False

    async def get(self, gvr: Any, name: str, namespace: str) -> dict[str, Any]:
        self.reads.append(f"{gvr.resource}/{namespace}/{name}")
        await asyncio.sleep(0)
        if self.missing:
            raise api_errors.not_found(gvr.resource, name)
        return {"metadata": {"name": name}}


async def test_many_ask_one_reads() -> None:
    api, clock = _Api(), FakeClock()
    objects = CachedObjects(cast("Client", api), clock)
    await asyncio.gather(*(objects.config_map("default", "c") for _ in range(20)))
    assert api.reads == ["configmaps/default/c"]
    await objects.secret("default", "c")
    assert len(api.reads) == 2
    await clock.advance(6)
    await objects.config_map("default", "c")
    assert len(api.reads) == 3


async def test_misses_are_asked_again() -> None:
    api = _Api()
    api.missing = True
    objects = CachedObjects(cast("Client", api), FakeClock())
    for _ in range(2):
        with pytest.raises(StatusError, match='configmaps "c" not found'):
            await objects.config_map("default", "c")
    api.missing = False
    assert (await objects.config_map("default", "c"))["metadata"]["name"] == "c"


async def test_more_objects_are_refreshed_less_often() -> None:
    api, clock = _Api(), FakeClock()
    objects = CachedObjects(cast("Client", api), clock)
    assert objects.refresh_period(60) == 10
    for number in range(300):
        await objects.config_map("default", f"c{number}")
    assert objects.refresh_period(60) == 30
    assert objects.refresh_period(20) == 20
    await clock.advance(400)
    objects.collect()
    assert objects.refresh_period(60) == 10
