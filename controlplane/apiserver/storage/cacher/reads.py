"""Pure halves of the cacher's reads: choosing, paging, and frames of what already is.

Used by ``cacher`` only.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from controlplane.apiserver.storage import frames, versions
from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import ListResult, Matches


def select(entries: Sequence[StoredEntry], matches: Matches | None) -> Sequence[StoredEntry]:
    return entries if matches is None else [entry for entry in entries if matches(entry.traits)]


def page(
    entries: Sequence[StoredEntry], prefix: str, revision: int, reading: versions.Reading, matches: Matches | None
) -> ListResult:
    """The next ``limit`` matching entries of a list in key order, from ``start`` on."""
    first = bisect_left(entries, reading.start, key=lambda entry: entry.key) if reading.start else 0
    limit = reading.limit or len(entries)
    if matches is None:
        chosen = list(entries[first : first + limit])
        beyond = len(entries) - first - len(chosen)
        if not beyond:
            return ListResult(chosen, revision)
        return ListResult(chosen, revision, versions.encode_continue(chosen[-1].key, prefix, revision), beyond)
    chosen = []
    for at in range(first, len(entries)):
        if matches(entries[at].traits):
            chosen.append(entries[at])
            if len(chosen) == limit and at + 1 < len(entries):
                return ListResult(chosen, revision, versions.encode_continue(chosen[-1].key, prefix, revision))
    return ListResult(chosen, revision)


def initial_frames(entries: Iterable[StoredEntry], end: Frame | None) -> Iterator[Frame]:
    for entry in entries:
        yield frames.added(entry)
    if end is not None:
        yield end


def past_frames(events: Iterable[Event], prefix: str, matches: Matches | None) -> Iterator[Frame]:
    for event in events:
        if event.key.startswith(prefix) and (frame := event.frame(matches)) is not None:
            yield frame
