"""Shared informers: one reflector, one store and many handlers per collection, so that parts of a daemon share one watch.

A daemon's wiring makes one InformerFactory, asks it for informers, adds handlers, and runs the factory in its TaskGroup.
Handlers run in the reflector's task, in the order of events: they only add keys to a work queue.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from apimachinery.gvk import GroupVersionResource
from client.lister import Lister
from client.reflector import Reflector, ResourceSource
from client.rest import Client
from client.store import IndexFunction, Store, object_key
from client.watch import Event
from component import logs
from component.clock import Clock, timeout

Object = dict[str, Any]
Transform = Callable[[Object], Object]
_TURN = 200
"""Events handled before other tasks get a turn."""
_log = logs.get(__name__)


def drop_managed_fields(obj: Object) -> Object:
    """The default transform: field ownership is often half of an object, and no daemon reads it from a cache."""
    obj["metadata"].pop("managedFields", None)
    return obj


@dataclass(frozen=True, slots=True)
class _Handler:
    on_add: Callable[[Object], object] | None
    on_update: Callable[[Object, Object], object] | None
    on_delete: Callable[[Object], object] | None
    where: Callable[[Object], bool] | None

    def notify(self, old: Object | None, new: Object | None) -> None:
        """Tell what changed; with ``where`` an object that begins or ceases to match is an addition or a deletion."""
        if self.where is not None:
            old = old if old is not None and self.where(old) else None
            new = new if new is not None and self.where(new) else None
        if old is None and new is not None and self.on_add is not None:
            self.on_add(new)
        elif old is not None and new is not None and self.on_update is not None:
            self.on_update(old, new)
        elif old is not None and new is None and self.on_delete is not None:
            self.on_delete(old)


class Informer:
    """The objects of one collection, kept current, and whoever wants to hear of changes.

    Objects are shared and must not be changed. An object that was deleted and made again between two looks is told as a
    deletion and an addition, never as an update.
    """

    def __init__(self, name: str, transform: Transform | None = None) -> None:
        self.name = name
        self.store = Store()
        self.lister = Lister(self.store)
        self._transform = transform or drop_managed_fields
        self._handlers: list[_Handler] = []
        self._synced = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the store and every handler was told of it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def add_index(self, name: str, function: IndexFunction) -> None:
        self.store.add_index(name, function)

    def add_handler(
        self,
        *,
        on_add: Callable[[Object], object] | None = None,
        on_update: Callable[[Object, Object], object] | None = None,
        on_delete: Callable[[Object], object] | None = None,
        where: Callable[[Object], bool] | None = None,
    ) -> None:
        """Hear of changes, and at once of every object already held. A handler that raises is logged and kept.

        ``on_delete`` gets the last state that was seen. ``where`` narrows the handler to objects for which it is true.
        """
        handler = _Handler(on_add, on_update, on_delete, where)
        self._handlers.append(handler)
        for obj in self.store.list():
            self._tell(handler, None, obj)

    async def replace(self, objects: list[Object]) -> None:
        """Sink for the reflector: the store becomes ``objects``; handlers hear the differences."""
        listed: dict[str, Object] = {}
        for obj in objects:
            changed = self._transformed(obj)
            listed[object_key(changed)] = changed
        for key in [held for held in self.store.keys() if held not in listed]:  # noqa: SIM118 - not a dict
            self._change(key, None)
        for position, (key, obj) in enumerate(listed.items(), 1):
            old = self.store.get(key)
            if old is None or not _same_version(old, obj):
                self._change(key, obj)
            if position % _TURN == 0:
                await asyncio.sleep(0)
        self._synced.set()

    async def apply(self, events: list[Event]) -> None:
        """Sink for the reflector: changes in order."""
        for position, (kind, obj) in enumerate(events, 1):
            key = object_key(obj)
            if kind == "DELETED":
                self._change(key, None, last=obj)
            else:
                self._change(key, self._transformed(obj))
            if position % _TURN == 0:
                await asyncio.sleep(0)

    def _transformed(self, obj: Object) -> Object:
        try:
            return self._transform(obj)
        except Exception as error:
            _log.exception("Transform failed, keeping the object as it is", informer=self.name, err=error)
            return obj

    def _change(self, key: str, new: Object | None, last: Object | None = None) -> None:
        if new is None:
            old = self.store.remove(key)
            if old is None:
                return
            # the event's object is the state at deletion, newer than what was held
            old = self._transformed(last) if last is not None else old
        else:
            old = self.store.put(key, new)
        reborn = old is not None and new is not None and old["metadata"].get("uid") != new["metadata"].get("uid")
        for handler in self._handlers:
            if reborn:
                self._tell(handler, old, None)
                self._tell(handler, None, new)
            else:
                self._tell(handler, old, new)

    def _tell(self, handler: _Handler, old: Object | None, new: Object | None) -> None:
        try:
            handler.notify(old, new)
        except Exception as error:
            obj = new if new is not None else old
            name = object_key(obj) if obj is not None else ""
            _log.exception("Event handler failed", informer=self.name, object=name, err=error)


def _same_version(old: Object, new: Object) -> bool:
    before, after = old["metadata"], new["metadata"]
    return bool(before.get("resourceVersion") == after.get("resourceVersion") and before.get("uid") == after.get("uid"))


_Selection = tuple[GroupVersionResource, str | None, str | None, str | None]


class InformerFactory:
    """Makes informers, one per collection and selection, and runs their reflectors as children of one TaskGroup."""

    def __init__(
        self, client: Client, clock: Clock | None = None, rng: random.Random | None = None, *, latest: bool = False
    ) -> None:
        """``latest`` is for leaders: what the last one did must be seen, also by way of a server that lags behind."""
        self._client, self._latest = client, latest
        self._clock = clock or client.clock
        self._random = rng
        self._informers: dict[_Selection, tuple[Informer, Reflector]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[_Selection, asyncio.Task[None]] = {}

    def informer(
        self,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        transform: Transform | None = None,
    ) -> Informer:
        """The shared informer of a selection; the first caller's ``transform`` counts. Works while running, too."""
        selection = (gvr, namespace, label_selector, field_selector)
        if selection not in self._informers:
            name = "/".join(filter(None, [gvr.group_resource, namespace, label_selector, field_selector]))
            informer = Informer(name, transform)
            source = ResourceSource(self._client, gvr, namespace, label_selector, field_selector)
            reflector = Reflector(name, source, informer, self._clock, self._random, latest=self._latest)
            self._informers[selection] = (informer, reflector)
            if self._group is not None:
                self._start(self._group, selection)
        return self._informers[selection][0]

    def remove(
        self,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> None:
        """Stop and forget an informer, as when its resource is no longer served."""
        selection = (gvr, namespace, label_selector, field_selector)
        self._informers.pop(selection, None)
        if (task := self._tasks.pop(selection, None)) is not None:
            task.cancel()

    async def run(self) -> None:
        """Reflect until cancelled. Runs once."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for selection in list(self._informers):
                    self._start(group, selection)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def wait_synced(self, seconds: float | None = None) -> None:
        """Wait until every informer asked for so far has its first list; TimeoutError names those that have not."""
        informers = [informer for informer, _ in self._informers.values()]
        if seconds is None:
            await _all(informer.wait_synced() for informer in informers)
            return
        try:
            async with timeout(self._clock, seconds):
                await _all(informer.wait_synced() for informer in informers)
        except TimeoutError:
            late = ", ".join(informer.name for informer in informers if not informer.has_synced)
            raise TimeoutError(f"no first list within {seconds:g} s of: {late}") from None

    def _start(self, group: asyncio.TaskGroup, selection: _Selection) -> None:
        informer, reflector = self._informers[selection]
        self._tasks[selection] = group.create_task(reflector.run(), name=f"reflector:{informer.name}")


async def _all(waits: Iterable[Coroutine[Any, Any, None]]) -> None:
    for wait in waits:
        await wait
