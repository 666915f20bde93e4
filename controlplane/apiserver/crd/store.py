"""The store of one version of a custom resource: objects are kept in the storage version, and shown in this one.

What is stored may be in any version that once was the storage version. An object that is in the wanted version already is
passed on as bytes; so is one whose version has the same schema, under the other name. Others are converted, at once where that
is renaming, or by asking the webhook (``conversion``), and remembered; watchers of one version share what is made of an event.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from apimachinery.errors import StatusError
from controlplane.apiserver.crd.conversion import Converter, Memory
from controlplane.apiserver.crd.strategy import CustomResourceStrategy
from controlplane.apiserver.registry import naming
from controlplane.apiserver.registry.entries import LazyEntries, PlainEntry
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.storage import frames
from controlplane.apiserver.storage.encoding import StoredEntry, head_of
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import (
    Entry,
    ListOptions,
    ListResult,
    Memo,
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
    """How objects get from one version to another. ``storage`` is the storage version's name.

    ``alike(one, other)``: whether objects of two versions differ in nothing but the version's name.
    """

    group: str
    storage: str
    converter: Converter
    prune: Prune
    memory: Memory
    alike: Callable[[str, str], bool]

    def prefix(self, version: str) -> bytes:
        """How the body of an object of a version begins."""
        return b'{"apiVersion":%b,' % orjson.dumps(f"{self.group}/{version}")


class CustomStore(Store):
    def __init__(self, strategy: CustomResourceStrategy, objects: ObjectStore, versions: Versions) -> None:
        super().__init__(strategy, objects)
        self._converts = True
        self._versions, self._own = versions, strategy.info.gvk.version
        self._begins, self._stored_begins = versions.prefix(self._own), versions.prefix(versions.storage)
        self._head = head_of(strategy.info.gvk.api_version, strategy.info.gvk.kind)
        self._alike: dict[bytes, bool] = {}  # by the heads of stored objects

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

    def _renamed(self, entry: Entry) -> Entry:
        """The entry in this version, where a converter needs nobody else's help or has no work."""
        made = self.ready(entry)
        assert made is not None
        return made

    def ready(self, entry: Entry) -> Entry | None:
        """The entry in this version, when that needs nobody else's help."""
        body = entry.body
        if body.startswith(self._begins):
            return WholeEntry(entry.key, body, entry.revision)
        versions = self._versions
        if isinstance(entry, StoredEntry):
            if self._is_alike(entry.head):
                return WholeEntry(entry.key, self._head + entry.item[1:], entry.revision)
            known = versions.memory.get(entry.key, entry.revision, self._own)
            if known is not None:
                return WholeEntry(entry.key, known, entry.revision)
        if versions.converter.asks:
            return None
        return self._remembered(entry, versions.converter.renamed(entry.decode(), self._own))

    def _is_alike(self, head: bytes) -> bool:
        found = self._alike.get(head)
        if found is None and not head:
            return False
        if found is None:
            version = str(orjson.loads(head.removesuffix(b",") + b"}").get("apiVersion")).rpartition("/")[2]
            found = self._alike[head] = not self._versions.converter.asks and self._versions.alike(version, self._own)
        return found

    def _remembered(self, entry: Entry, made: Object) -> Entry:
        """``entry`` as it was ``made``. What is not stored (the answer to a dry run) has a revision that is another's."""
        new = self._entry(entry, made)
        if isinstance(entry, StoredEntry):
            self._versions.memory.keep(new.key, new.revision, self._own, new.body)
        return new

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
                shown[at] = self._remembered(entries[at], obj)
        return [entry for entry in shown if entry is not None]

    # ------------------------------------------------------------------ many

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        found = await self.objects.list(naming.collection(self.prefix, namespace), options)
        heads = {entry.head if isinstance(entry, StoredEntry) else b"" for entry in found.entries}
        native = heads <= {self._head}
        if self._versions.converter.asks and not native:
            entries: Sequence[Entry] = await self.all_shown(found.entries)
        else:
            entries = LazyEntries(found.entries, self._renamed)
        rest = found.rest and self._rest(found.rest)
        memo = found.memo and _VersionMemo(found.memo, self._own)
        return replace(found, entries=entries, rest=rest, memo=memo, made=not (native or all(map(self._is_alike, heads))))

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
            bookmark = PlainEntry("", frame.revision, {**frame.entry.decode(), "apiVersion": self._api_version})
            return self.made_frame(frame, bookmark)
        if self._versions.converter.asks:
            entry = self.ready(frame.entry)
            return None if entry is None else self.made_frame(frame, entry)
        return _ShownFrame(frame, self._own, lambda: self.ready(frame.entry))

    def made_frame(self, frame: WatchFrame, entry: Entry) -> WatchFrame:
        return _ShownFrame(frame, self._own, lambda: entry)

    @property
    def _api_version(self) -> str:
        return self.info.gvk.api_version


class PlainWhole(PlainEntry):
    """A converted object; see ``WholeEntry``."""

    __slots__ = ()

    @property
    def item(self) -> bytes:
        return self.body


class _VersionMemo:
    """The memo of a list for the readers of one version."""

    def __init__(self, memo: Memo, version: str) -> None:
        self._memo, self._version = memo, version

    def get(self, name: str) -> Any:
        return self._memo.get(f"{name} of {self._version}")

    def keep(self, name: str, value: Any, size: int) -> None:
        self._memo.keep(f"{name} of {self._version}", value, size)


class _ShownFrame:
    """An event in another version than it is stored in. What is made of it is kept with the event, for all its watchers."""

    __slots__ = ("_entry", "_frame", "_version", "revision", "type")

    def __init__(self, frame: WatchFrame, version: str, entry: Callable[[], Entry | None]) -> None:
        self._frame, self._version, self._entry = frame, version, entry
        self.type, self.revision = frame.type, frame.revision

    @property
    def entry(self) -> Entry:
        made = self._entry()
        assert made is not None
        return made

    @property
    def line(self) -> bytes:
        return self.form("line", lambda frame: Frame(frame.type, frame.entry, frame.revision).line)

    @property
    def chunk(self) -> bytes:
        return self.form("chunk", lambda frame: Frame(frame.type, frame.entry, frame.revision).chunk)

    def form(self, name: str, make: Callable[[WatchFrame], bytes]) -> bytes:
        return self._frame.form(f"{name} of {self._version}", lambda _: make(self))


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
