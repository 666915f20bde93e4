"""Resources whose objects are stored as another resource's: Events of events.k8s.io are stored core Events.

Wraps entries and watches of the stored resource; costs a decode and an encode, and only those resources pay.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from controlplane.apiserver.registry.entries import LazyEntries, PlainEntry
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import Entry, ListResult, PushedWatch, Watch, WatchFrame


def converted(entry: Entry, strategy: Strategy) -> Entry:
    """The entry in the strategy's own version."""
    if strategy.stored_as is None:
        return entry
    return PlainEntry(entry.key, entry.revision, strategy.from_stored(entry.decode()))


def converted_list(found: ListResult, strategy: Strategy) -> ListResult:
    """The list in the strategy's own version."""
    rest = found.rest
    convert = partial(converted, strategy=strategy)
    more = None if rest is None else (LazyEntries(part, convert) async for part in rest)
    return ListResult(
        LazyEntries(found.entries, convert), found.revision, found.continue_token, found.remaining, rest=more, made=True
    )


class _ConvertedWatch:
    """Passes on what the watch of the stored resource gives; bookmarks and errors as they are."""

    def __init__(self, inner: PushedWatch, strategy: Strategy) -> None:
        self._inner, self._strategy = inner, strategy

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        async for frame in self._inner:
            yield self._convert(frame)

    async def batch(self) -> Sequence[WatchFrame]:
        return [self._convert(frame) for frame in await self._inner.batch()]

    def push_to(self, ready: Callable[[], None] | None) -> bool:
        return self._inner.push_to(ready)

    def take(self) -> Sequence[WatchFrame]:
        return [self._convert(frame) for frame in self._inner.take()]

    def _convert(self, frame: WatchFrame) -> WatchFrame:
        if frame.type in ("BOOKMARK", "ERROR"):
            return frame
        return Frame(frame.type, converted(frame.entry, self._strategy), frame.revision)

    def when_caught_up(self, act: Callable[[], None]) -> None:
        self._inner.when_caught_up(act)

    def close(self) -> None:
        self._inner.close()


def converting_watch(watch: Watch, strategy: Strategy) -> Watch:
    if strategy.stored_as is None:
        return watch
    assert isinstance(watch, PushedWatch)
    return _ConvertedWatch(watch, strategy)
