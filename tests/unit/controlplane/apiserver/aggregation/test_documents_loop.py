"""When extension servers are asked again for what they have, in virtual time."""

import asyncio
import contextlib
from typing import Any

import orjson

from apimachinery.gvk import GroupVersion
from component.clock import FakeClock
from controlplane.apiserver.aggregation.backends import Backend, Fetched, UnreachableError
from controlplane.apiserver.aggregation.documents import Documents
from controlplane.apiserver.aggregation.services import APIServices

VERSION = GroupVersion("things.example", "v1")


class Server:
    """An extension server that may be away."""

    def __init__(self) -> None:
        self.away, self.asked = True, 0

    async def of(self, one: Any) -> Backend:
        return Backend("10.0.0.1", 443, one.service.server_name, None)  # type: ignore[arg-type]

    async def get(self, backend: Backend, path: str, user: Any, headers: Any, limit: int) -> Fetched:
        self.asked += 1
        if self.away:
            raise UnreachableError("nobody there")
        versions = [{"version": "v1", "resources": [{"resource": "widgets"}]}]
        items = [{"metadata": {"name": VERSION.group}, "versions": versions}]
        return Fetched(200, "", orjson.dumps({"kind": "APIGroupDiscoveryList", "items": items}))


async def test_one_that_was_away_for_a_day_is_still_asked() -> None:
    clock, server = FakeClock(), Server()
    services = APIServices(None)  # type: ignore[arg-type]
    spec = {"group": VERSION.group, "version": "v1", "service": {"namespace": "default", "name": "things"}}
    status = {"conditions": [{"type": "Available", "status": "True"}]}
    documents = Documents(services, server, clock)  # type: ignore[arg-type]
    services.take([{"metadata": {"name": "v1.things.example"}, "spec": spec, "status": status}])
    task = asyncio.create_task(documents.run())
    await clock.advance(24 * 3600)
    assert documents.versions[VERSION]["freshness"] == "Stale"
    server.away = False
    await clock.advance(60)
    assert documents.versions[VERSION] == {"version": "v1", "resources": [{"resource": "widgets"}], "freshness": "Current"}
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
