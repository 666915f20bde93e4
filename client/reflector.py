"""List, then watch, for ever: keeps a sink equal to what the API server holds. The informer is the usual sink.

The resourceVersion of the first list is "0" (any version the server has at hand) or, for whoever takes over another's work, ""
(the latest); later lists ask for at least what was seen; when the server calls that version expired or unknown, the next
list asks for the latest. A watch that ends is taken up where it ended; only 410 leads to a new list. Failures are logged and
met with jittered back-off, never raised.
"""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Protocol

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.failures import is_expired, is_overload, is_too_large_version
from client.rest import Client
from client.transport import TransportError
from client.watch import Batch, Event
from component import logs
from component.clock import Clock
from component.tasks import Backoff

Object = dict[str, Any]
PAGE = 500
MIN_WATCH, MAX_WATCH = 300, 600
_log = logs.get(__name__)


class Source(Protocol):
    """Something that can be listed and watched."""

    async def list(self, *, resource_version: str, limit: int | None, continue_token: str | None) -> Object: ...

    def watch(self, *, resource_version: str, timeout_seconds: int) -> AsyncIterator[Batch]: ...


class Sink(Protocol):
    """Something that holds what is reflected. Neither method may fail."""

    async def replace(self, objects: list[Object]) -> None:
        """These are all objects there are."""
        ...

    async def apply(self, events: list[Event]) -> None:
        """These changes happened, in this order; no bookmarks among them."""
        ...


class ResourceSource:
    """One collection, perhaps narrowed to a namespace and by selectors, through the REST client."""

    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> None:
        self._client, self._gvr, self._namespace = client, gvr, namespace
        self._labels, self._fields = label_selector, field_selector

    async def list(self, *, resource_version: str, limit: int | None, continue_token: str | None) -> Object:
        return await self._client.list(
            self._gvr,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            limit=limit,
            resource_version=resource_version if not continue_token else None,
            continue_token=continue_token,
        )

    async def watch(self, *, resource_version: str, timeout_seconds: int) -> AsyncIterator[Batch]:
        watch = self._client.watch(
            self._gvr,
            self._namespace,
            resource_version=resource_version,
            label_selector=self._labels,
            field_selector=self._fields,
            timeout_seconds=timeout_seconds,
            bookmarks=True,
        )
        async with watch, aclosing(watch.batches()) as batches:  # type: ignore[type-var]
            async for batch in batches:
                yield batch


class Reflector:
    """Copies one Source into one Sink. ``run`` never returns; its owner cancels it."""

    def __init__(
        self,
        name: str,
        source: Source,
        sink: Sink,
        clock: Clock,
        rng: random.Random | None = None,
        page: int = PAGE,
        latest: bool = False,
    ) -> None:
        """``latest``: begin with what is true now, not with what some server has at hand."""
        self.name = name
        self.resource_version = ""
        """Of the latest change or bookmark seen; empty before the first list."""
        self._source, self._sink, self._clock, self._page = source, sink, clock, page
        self._random = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._unavailable, self._any = False, "" if latest else "0"
        self._backoff = Backoff(0.2, 10.0, clock=clock, rng=self._random)

    async def run(self) -> None:
        while True:
            try:
                await self._list()
                await self._follow()
            except Exception as error:
                pause = self._backoff.step()
                self._report("Cannot list, will try again", error, pause)
                await self._clock.sleep(pause)

    async def _list(self) -> None:
        """One full list into the sink."""
        try:
            objects, version = await self._pages(self._first_version())
        except StatusError as error:
            if not is_expired(error) and not is_too_large_version(error):
                raise
            self._unavailable = True
            objects, version = await self._pages("")
        self._unavailable = False
        await self._sink.replace(objects)
        self.resource_version = version
        _log.v(3, "Listed", reflector=self.name, objects=len(objects), version=version)

    def _first_version(self) -> str:
        if self._unavailable:
            return ""
        return self.resource_version or self._any

    async def _pages(self, version: str) -> tuple[list[Object], str]:
        """All pages from ``version``. A continue token that expires on the way falls back to one whole list."""
        objects: list[Object] = []
        token: str | None = None
        # a list at a version comes from the server's cache, which does not page
        limit = self._page if version == "" else None
        while True:
            try:
                answer = await self._source.list(resource_version=version, limit=limit, continue_token=token)
            except StatusError as error:
                if token is None or not is_expired(error):
                    raise
                objects, token, limit = [], None, None
                continue
            objects += typed_items(answer)
            metadata = answer.get("metadata") or {}
            token = metadata.get("continue") or None
            if token is None:
                return objects, str(metadata.get("resourceVersion") or "")

    async def _follow(self) -> None:
        """Watch again and again until a new list is needed."""
        while True:
            began, before = self._clock.monotonic(), self.resource_version
            try:
                await self._watch()
            except (StatusError, TransportError) as error:
                if is_expired(error):
                    _log.v(2, "Watched version expired, listing again", reflector=self.name, version=self.resource_version)
                    return
                if isinstance(error, StatusError) and not is_overload(error) and error.code < 500:
                    raise
                self._report("Watch ended", error)
            else:
                # only a server in trouble ends a watch at once and in silence
                if self._clock.monotonic() - began >= 1.0 or self.resource_version != before:
                    continue
            await self._clock.sleep(self._backoff.step())

    async def _watch(self) -> None:
        seconds = int(MIN_WATCH + (MAX_WATCH - MIN_WATCH) * self._random.random())
        events = self._source.watch(resource_version=self.resource_version, timeout_seconds=seconds)
        async with aclosing(events):  # type: ignore[type-var]
            async for batch in events:
                self._backoff.reset()
                changes = [event for event in batch if event[0] != "BOOKMARK"]
                if changes:
                    await self._sink.apply(changes)
                version = batch[-1][1].get("metadata", {}).get("resourceVersion")
                if version:
                    self.resource_version = str(version)

    def _report(self, message: str, error: Exception, pause: float | None = None) -> None:
        after = {} if pause is None else {"after": f"{pause:.1f}s"}
        if isinstance(error, TransportError):
            _log.v(1 if pause is None else 0, message, reflector=self.name, err=error, **after)
        elif isinstance(error, StatusError):
            _log.warning(message, reflector=self.name, err=error, **after)
        else:
            _log.exception(message, reflector=self.name, err=error, **after)


def typed_items(answer: Object) -> list[Object]:
    """The items of a List, each with the kind and apiVersion that lists leave out of their items."""
    items: list[Object] = answer.get("items") or []
    kind, api_version = str(answer.get("kind", "")).removesuffix("List"), answer.get("apiVersion", "")
    if items and "kind" not in items[0]:
        items = [{"apiVersion": api_version, "kind": kind, **item} for item in items]
    return items
