"""The server's own objects about requests: flow control, and an APIService for each version that is served.

Called by ``poststart``, at the start and then again and again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

from apimachinery import errors
from apimachinery.gvk import GroupVersion
from apimachinery.meta import clone
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.kinds.apiregistration import apiservice
from controlplane.apiserver.kinds.flowcontrol import bootstrap, upkeep
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.registry.update import STATUS
from controlplane.apiserver.storage.interface import ListOptions

Object = dict[str, Any]
Ensure = Callable[[str, Object, Callable[[Object, Object], Object | None]], Coroutine[Any, Any, None]]
"""``await ensure(resource, wanted, mended)``: create it, or bring what is stored to what ``mended`` says."""

_SERVICES = f"apiservices.{apiservice.GROUP}"
_SCHEMAS, _LEVELS = f"flowschemas.{bootstrap.GROUP}", f"prioritylevelconfigurations.{bootstrap.GROUP}"

_CONSUMER = "api-priority-and-fairness-config-consumer-v1"  # upstream's field manager for conditions


async def _no_admission(obj: Object, old: Object | None) -> None:
    """The server's own objects need nobody's leave."""


class RequestObjects:
    def __init__(self, stores: Mapping[str, Store], served: Collection[GroupVersion], ensure: Ensure) -> None:
        self._stores, self._ensure = stores, ensure
        self._services = apiservice.local_services(served)

    async def bring_about(self) -> None:
        """At the start. APIServices are seen to only then: their label says so, and another server may serve other versions."""
        async with asyncio.TaskGroup() as tasks:  # together: the store commits them as a group
            for service in self._services:
                tasks.create_task(self._ensure(_SERVICES, clone(service), _same_spec))
        await self._retire_services()
        await self.mend()

    async def mend(self) -> None:
        """Flow control objects that somebody deleted or changed are as they must be again."""
        async with asyncio.TaskGroup() as tasks:
            for resource, obj in bootstrap.objects():
                tasks.create_task(self._ensure(resource, clone(obj), upkeep.mended))
        await self._retire_flow_objects()
        await self.note_dangling()

    async def note_dangling(self) -> None:
        """Each FlowSchema says whether its priority level exists."""
        levels = {held["metadata"]["name"] for held in await self._all(_LEVELS)}
        now = datetime.now(UTC)

        async def change(newest: Object) -> Object | None:
            return upkeep.with_dangling(newest, levels, now)

        for schema in await self._all(_SCHEMAS):
            if upkeep.with_dangling(schema, levels, now) is not None:
                context = Context(SERVER, "", schema["metadata"]["name"], "update", now, "status", field_manager=_CONSUMER)
                with contextlib.suppress(errors.StatusError):  # it has gone meanwhile
                    await self._stores[_SCHEMAS].update(context, change, _no_admission, STATUS)

    async def _retire_services(self) -> None:
        """APIServices of versions that are no longer served go."""
        wanted = {service["metadata"]["name"] for service in self._services}
        for held in await self._all(_SERVICES):
            metadata = held["metadata"]
            if apiservice.managed(held) == "onstart" and metadata["name"] not in wanted:
                with contextlib.suppress(errors.StatusError):  # somebody else was faster
                    await self._stores[_SERVICES].delete(_context(metadata["name"], "delete"), {}, _no_admission)

    async def _retire_flow_objects(self) -> None:
        """What an earlier version suggested and this one does not goes, unless somebody has made it theirs."""
        for resource in (_SCHEMAS, _LEVELS):
            wanted = {obj["metadata"]["name"] for name, obj in bootstrap.objects() if name == resource}
            for held in await self._all(resource):
                if held["metadata"]["name"] not in wanted and upkeep.is_ours(held):
                    with contextlib.suppress(errors.StatusError):  # somebody else was faster
                        await self._stores[resource].delete(_context(held["metadata"]["name"], "delete"), {}, _no_admission)

    async def _all(self, resource: str) -> list[Object]:
        store = self._stores.get(resource)
        if store is None:
            return []
        return [entry.decode() for entry in (await store.list("", ListOptions())).entries]


def _context(name: str, verb: str) -> Context:
    return Context(SERVER, "", name, verb, datetime.now(UTC), field_manager="kube-apiserver")


def _same_spec(stored: Object, wanted: Object) -> Object | None:
    """One without our label has been made somebody's own."""
    same = stored.get("spec") == wanted["spec"] or not apiservice.managed(stored)
    return None if same else {**stored, "spec": wanted["spec"]}
