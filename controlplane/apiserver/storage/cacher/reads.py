"""Pure halves of the cacher's reads: choosing, paging, and frames of what already is.

Used by ``cacher`` only.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from controlplane.apiserver.storage import frames, versions
from controlplane.apiserver.storage.backends.ledger import prefix_end
from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import ListResult, Matches


def select(entries: Sequence[StoredEntry], matches: Matches | None) -> Sequence[StoredEntry]:
    return entries if matches is None else [entry for entry in entries if matches(entry.traits)]


def page(
    entries: Sequence[StoredEntry], beyond: int, prefix: str, revision: int, limit: int, matches: Matches | None
) -> ListResult:
    """The first ``limit`` matching entries of a list; ``beyond`` is how many more there are after the list."""
    if matches is None:
        chosen = entries[:limit] if limit else entries
        beyond += len(entries) - len(chosen)
        token = versions.encode_continue(chosen[-1].key, prefix, revision) if beyond else ""
        return ListResult(chosen, revision, token, beyond or None)
    matching = []
    for at, entry in enumerate(entries, 1):
        if matches(entry.traits):
            matching.append(entry)
            if len(matching) == limit and at < len(entries):
                return ListResult(matching, revision, versions.encode_continue(entry.key, prefix, revision))
    return ListResult(matching, revision)


def cut(entries: Sequence[StoredEntry], prefix: str, start: str) -> Sequence[StoredEntry]:
    """The entries with ``prefix`` from ``start`` on, of a list in key order."""
    first = bisect_left(entries, max(prefix, start), key=_key)
    end = prefix_end(prefix)
    return entries[first : bisect_left(entries, end, first, key=_key) if end is not None else len(entries)]


def before(entries: Sequence[StoredEntry], events: Sequence[Event]) -> Sequence[StoredEntry]:
    """What a list in key order was before these changes, given what it is after them. The objects themselves are shared."""
    was: dict[str, StoredEntry | None] = {}
    for event in events:
        was.setdefault(event.key, event.previous)  # of several changes of one object the first one knows
    restored = [entry for entry in was.values() if entry is not None]
    if not restored:
        return [entry for entry in entries if entry.key not in was]
    restored.sort(key=_key)
    return list(merge((entry for entry in entries if entry.key not in was), restored, key=_key))


def _key(entry: StoredEntry) -> str:
    return entry.key


def initial_frames(entries: Iterable[StoredEntry], end: Frame | None) -> Iterator[Frame]:
    for entry in entries:
        yield frames.added(entry)
    if end is not None:
        yield end


def past_frames(events: Iterable[Event], prefix: str, matches: Matches | None) -> Iterator[Frame]:
    for event in events:
        if event.key.startswith(prefix) and (frame := event.frame(matches)) is not None:
            yield frame
