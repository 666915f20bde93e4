"""Resources whose objects are stored as another resource's: Events of events.k8s.io are stored core Events.

Wraps entries and watches of the stored resource; costs a decode and an encode, and only those resources pay.
"""

from collections.abc import AsyncIterator, Callable, Sequence

from controlplane.apiserver.registry.entries import PlainEntry
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import Entry, Watch, WatchFrame


def converted(entry: Entry, strategy: Strategy) -> Entry:
    """The entry in the strategy's own version."""
    if strategy.stored_as is None:
        return entry
    return PlainEntry(entry.key, entry.revision, strategy.from_stored(entry.decode()))


class _ConvertedFrame:
    """A watch event in another version; bookmarks and errors pass as they are."""

    __slots__ = ("_entry", "_line", "revision", "type")

    def __init__(self, frame: WatchFrame, strategy: Strategy) -> None:
        self.type, self.revision = frame.type, frame.revision
        self._entry = converted(frame.entry, strategy)
        self._line = b'{"type":"%s","object":%s}\n' % (frame.type.encode(), self._entry.body)

    @property
    def line(self) -> bytes:
        return self._line

    @property
    def entry(self) -> Entry:
        return self._entry


class _ConvertedWatch:
    def __init__(self, inner: Watch, strategy: Strategy) -> None:
        self._inner, self._strategy = inner, strategy

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        async for frame in self._inner:
            yield self._convert(frame)

    async def batch(self) -> Sequence[WatchFrame]:
        return [self._convert(frame) for frame in await self._inner.batch()]

    def _convert(self, frame: WatchFrame) -> WatchFrame:
        return frame if frame.type in ("BOOKMARK", "ERROR") else _ConvertedFrame(frame, self._strategy)

    def when_caught_up(self, act: Callable[[], None]) -> None:
        self._inner.when_caught_up(act)

    def close(self) -> None:
        self._inner.close()


def converting_watch(watch: Watch, strategy: Strategy) -> Watch:
    return watch if strategy.stored_as is None else _ConvertedWatch(watch, strategy)
