"""The store of one version of a custom resource: objects are kept in the storage version, and shown in this one.

What is stored may be in any version that once was the storage version. An object that is in the wanted version already is
passed on as bytes; others are converted, at once where that is renaming, or by asking the webhook (``conversion``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import orjson

from apimachinery.errors import StatusError
from controlplane.apiserver.crd.conversion import Converter, Memory
from controlplane.apiserver.crd.strategy import CustomResourceStrategy
from controlplane.apiserver.registry import naming
from controlplane.apiserver.registry.entries import PlainEntry
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.storage import frames
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import (
    Entry,
    ListOptions,
    ListResult,
    ObjectStore,
    PushedWatch,
    Watch,
    WatchFrame,
    WatchOptions,
)

Object = dict[str, Any]
Prune = Callable[[str, Object], None]
"""Brings an object, in place, to the form that a version's schema knows."""


class WholeEntry:
    """Ready bytes; in lists a custom resource keeps its type, other than built-in kinds."""

    __slots__ = ("body", "key", "revision")

    def __init__(self, key: str, body: bytes, revision: int) -> None:
        self.key, self.body, self.revision = key, body, revision

    @property
    def item(self) -> bytes:
        return self.body

    def decode(self) -> Object:
        decoded: Object = orjson.loads(self.body)
        return decoded


@dataclass(frozen=True, slots=True)
class Versions:
    """How objects get from one version to another. ``storage`` is the storage version's name."""

    group: str
    storage: str
    converter: Converter
    prune: Prune
    memory: Memory

    def prefix(self, version: str) -> bytes:
        """How the body of an object of a version begins."""
        return b'{"apiVersion":%b,' % orjson.dumps(f"{self.group}/{version}")


class CustomStore(Store):
    def __init__(self, strategy: CustomResourceStrategy, objects: ObjectStore, versions: Versions) -> None:
        super().__init__(strategy, objects)
        self._converts = True
        self._versions, self._own = versions, strategy.info.gvk.version
        self._begins, self._stored_begins = versions.prefix(self._own), versions.prefix(versions.storage)

    # ------------------------------------------------------------------ one object

    async def shown(self, entry: Entry) -> Entry:
        if (ready := self.ready(entry)) is not None:
            return ready
        (made,) = await self.all_shown([entry])
        return made

    async def kept(self, obj: Object) -> Object:
        storage = self._versions.storage
        if storage == self._own:
            return obj
        (made,) = await self._versions.converter.convert([obj], storage)
        self._versions.prune(storage, made)
        return made

    def is_current(self, entry: Entry) -> bool:
        return entry.body.startswith(self._stored_begins)

    def ready(self, entry: Entry) -> Entry | None:
        """The entry in this version, when that needs nobody else's help."""
        body = entry.body
        if body.startswith(self._begins):
            return WholeEntry(entry.key, body, entry.revision)
        versions = self._versions
        if versions.converter.asks:
            known = versions.memory.get(entry.key, entry.revision, self._own)
            return None if known is None else WholeEntry(entry.key, known, entry.revision)
        return self._entry(entry, versions.converter.renamed(entry.decode(), self._own))

    def _entry(self, entry: Entry, made: Object) -> Entry:
        self._versions.prune(self._own, made)
        made["metadata"]["resourceVersion"] = str(entry.revision)
        return PlainWhole(entry.key, entry.revision, made)

    async def all_shown(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries in this version; what has to be asked is asked together."""
        shown = [self.ready(entry) for entry in entries]
        waiting = [at for at, entry in enumerate(shown) if entry is None]
        if waiting:
            versions = self._versions
            made = await versions.converter.convert([entries[at].decode() for at in waiting], self._own)
            for at, obj in zip(waiting, made, strict=True):
                shown[at] = new = self._entry(entries[at], obj)
                versions.memory.keep(new.key, new.revision, self._own, new.body)
        return [entry for entry in shown if entry is not None]

    # ------------------------------------------------------------------ many

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        found = await self.objects.list(naming.collection(self.prefix, namespace), options)
        native = all(entry.body.startswith(self._begins) for entry in found.entries)
        if self._versions.converter.asks and not native:
            entries: Sequence[Entry] = await self.all_shown(found.entries)
        else:
            entries = _Lazy(found.entries, self.ready)
        rest = found.rest and self._rest(found.rest)
        memo = found.memo if native and self._own == self._versions.storage else None
        return replace(found, entries=entries, rest=rest, memo=memo, made=not native)

    async def _rest(self, parts: AsyncIterator[Sequence[Entry]]) -> AsyncIterator[Sequence[Entry]]:
        async for part in parts:
            yield await self.all_shown(part)

    async def watch(self, namespace: str, options: WatchOptions) -> Watch:
        watch = await self.objects.watch(naming.collection(self.prefix, namespace), options)
        if self._versions.converter.asks:
            return _AskedWatch(watch, self)
        assert isinstance(watch, PushedWatch)
        return _ShownWatch(watch, self)

    def frame(self, frame: WatchFrame) -> WatchFrame | None:
        """The frame in this version, shared where nothing changes; None for one that must be asked for."""
        if frame.type == frames.ERROR or frame.entry.body.startswith(self._begins):
            return frame
        if frame.type == frames.BOOKMARK:
            return self.made_frame(
                frame, PlainEntry("", frame.revision, {**frame.entry.decode(), "apiVersion": self._api_version})
            )
        entry = self.ready(frame.entry)
        return None if entry is None else self.made_frame(frame, entry)

    @staticmethod
    def made_frame(frame: WatchFrame, entry: Entry) -> WatchFrame:
        return Frame(frame.type, entry, frame.revision)

    @property
    def _api_version(self) -> str:
        return self.info.gvk.api_version


class PlainWhole(PlainEntry):
    """A converted object; see ``WholeEntry``."""

    __slots__ = ()

    @property
    def item(self) -> bytes:
        return self.body


class _Lazy(Sequence[Entry]):
    """Each entry is made when it is looked at."""

    def __init__(self, entries: Sequence[Entry], make: Callable[[Entry], Entry | None]) -> None:
        self._entries, self._make = entries, make

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(at, slice):
            return [self._made(entry) for entry in self._entries[at]]
        return self._made(self._entries[at])

    def _made(self, entry: Entry) -> Entry:
        made = self._make(entry)
        assert made is not None
        return made


class _ShownWatch:
    """A watch whose frames are in the wanted version, or become so at once."""

    def __init__(self, inner: PushedWatch, store: CustomStore) -> None:
        self._inner, self._store = inner, store

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        while ready := await self.batch():
            for frame in ready:
                yield frame

    async def batch(self) -> Sequence[WatchFrame]:
        return self._all(await self._inner.batch())

    def push_to(self, ready: Callable[[], None] | None) -> bool:
        return self._inner.push_to(ready)

    def take(self) -> Sequence[WatchFrame]:
        return self._all(self._inner.take())

    def _all(self, ready: Sequence[WatchFrame]) -> Sequence[WatchFrame]:
        made = [self._store.frame(frame) for frame in ready]
        return [frame for frame in made if frame is not None]

    def when_caught_up(self, act: Callable[[], None]) -> None:
        self._inner.when_caught_up(act)

    def close(self) -> None:
        self._inner.close()


class _AskedWatch:
    """A watch whose frames have to be asked for. It ends with an ERROR when the webhook does not answer."""

    def __init__(self, inner: Watch, store: CustomStore) -> None:
        self._inner, self._store = inner, store
        self._asking = asyncio.Lock()

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        while ready := await self.batch():
            for frame in ready:
                yield frame

    async def batch(self) -> Sequence[WatchFrame]:
        ready = await self._inner.batch()
        made = [self._store.frame(frame) for frame in ready]
        waiting = [at for at, frame in enumerate(made) if frame is None]
        if waiting:
            try:
                async with self._asking:
                    entries = await self._store.all_shown([ready[at].entry for at in waiting])
            except StatusError as problem:
                self._inner.close()
                return [frames.error(problem)]
            for at, entry in zip(waiting, entries, strict=True):
                made[at] = self._store.made_frame(ready[at], entry)
        return [frame for frame in made if frame is not None]

    def when_caught_up(self, act: Callable[[], None]) -> None:
        self._inner.when_caught_up(act)

    def close(self) -> None:
        self._inner.close()
