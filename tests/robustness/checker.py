"""Judges a history by what the Kubernetes API promises; every broken promise is one sentence. Pure.

First the *truth* is put together: which state each key had from which revision on, as far as any client was told. Then every
answer, list and watch is held against it. Times matter in one way only: what was answered before a request began must be
visible to that request.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from tests.robustness.history import OK, REFUSED, History, Read, Seen, State, Watched, Write

_NONE = 1 << 62


class Truth:
    """The states of every key by revision; two clients that were told different things about one revision are noted."""

    def __init__(self) -> None:
        self.keys: dict[str, list[tuple[int, State | None]]] = {}
        self.conflicts: list[str] = []

    def add(self, key: str, revision: int, state: State | None, source: str) -> None:
        story = self.keys.setdefault(key, [])
        at = bisect_left(story, revision, key=_revision)
        if at < len(story) and story[at][0] == revision:
            if story[at][1] != state:
                self.conflicts.append(f"{source} saw {key} at {revision} as {state}, another client as {story[at][1]}")
            return
        story.insert(at, (revision, state))

    def at(self, key: str, revision: int) -> tuple[int, State | None]:
        story = self.keys.get(key, [])
        at = bisect_right(story, revision, key=_revision)
        return story[at - 1] if at else (0, None)

    def between(self, key: str, low: int, high: int) -> Iterator[tuple[int, State | None]]:
        """The states that hold at some moment from ``low`` to ``high``."""
        yield self.at(key, low)
        for revision, state in self.keys.get(key, []):
            if low < revision <= high:
                yield revision, state


def _revision(entry: tuple[int, State | None]) -> int:
    return entry[0]


def truth_of(history: History) -> Truth:
    truth = Truth()
    for watched in history.watches:
        for seen in watched.events:
            if seen.type != "DELETED":
                truth.add(seen.key, seen.revision, seen.state, watched.name)
            elif not watched.color:  # for a selector it may have left only
                truth.add(seen.key, seen.revision, None, watched.name)
    for write in history.writes:
        if write.outcome == OK and write.revision and not went_away(write):
            truth.add(write.key, write.revision, write.state, f"the {write.verb} of {write.value or write.key}")
    return truth


def went_away(write: Write) -> bool:
    """The object is gone with this write: its answer shows the last state, not a new one."""
    state = write.state
    return (write.verb == "delete" and not write.revision) or (state is not None and state.deleting and not state.held)


def check(history: History) -> list[str]:
    """Every promise that was broken; empty for a good history."""
    truth = truth_of(history)
    found = history.troubles + truth.conflicts
    found += _lives(truth)
    found += _values(history, truth)
    bounds = Bounds(history.writes, history.reads)
    for write in history.writes:
        found += _write(write, truth, bounds)
    for read in history.reads:
        found += _read(read, truth, bounds)
    for watched in history.watches:
        found += _watched(watched, truth)
    return found


# --------------------------------------------------------------------------- one key's story


def _lives(truth: Truth) -> list[str]:
    """An object keeps its uid until it is deleted, and no uid lives twice; a deleting object never recovers."""
    found: list[str] = []
    owner: dict[str, str] = {}
    for key, story in truth.keys.items():
        before: State | None = None
        for revision, state in story:
            if state is None:
                if before is None:
                    found.append(f"{key} was deleted at {revision} though it did not exist")
            elif before is None:
                if state.uid in owner:
                    found.append(f"{key} came to life at {revision} with the uid of {owner[state.uid]}, which was deleted")
                owner[state.uid] = f"{key} created at {revision}"
            elif before.uid != state.uid:
                found.append(f"{key} changed its uid at {revision} without having been deleted")
            elif before.deleting and not state.deleting:
                found.append(f"{key} was being deleted and is not any more at {revision}")
            before = state
    return found


def _values(history: History, truth: Truth) -> list[str]:
    """What is stored was written by somebody, once, and not by a write that was refused."""
    writes = {write.value: write for write in history.writes if write.value}
    found = []
    for key, story in truth.keys.items():
        met: set[str] = set()
        last = ""
        for revision, state in story:
            value = state.value if state else ""
            if state is None or (value == last and state.deleting):  # the mark of a deletion keeps the value
                last = value
                continue
            write = writes.get(value)
            if write is None or write.key != key:
                found.append(f"{key} at {revision} holds {value!r}, which nobody wrote there")
            elif write.outcome == REFUSED:
                found.append(f"{key} at {revision} holds {value!r}, whose {write.verb} was refused with {write.code}")
            if value in met:
                found.append(f"{key} holds {value!r} a second time at {revision}")
            met.add(value)
            last = value
    return found


# --------------------------------------------------------------------------- requests in time


class Bounds:
    """From when a request was under way to revisions: it sees at least ``low``, and nothing later than ``high``."""

    def __init__(self, writes: list[Write], reads: list[Read]) -> None:
        done = [one for one in writes if one.outcome == OK and one.revision]
        ends = [(one.ended, one.revision) for one in done] + [(read.ended, read.revision) for read in reads]
        # not every answer shows a revision of its own: a second deletion shows the mark of the first
        new = [one for one in done if one.verb != "delete" and not went_away(one)]
        starts = [(-one.started, one.revision) for one in new] + [(-read.started, read.revision) for read in reads]
        self._ends, self._lows = _running(ends, max)
        self._starts, self._highs = _running(starts, min)

    def low(self, started: float) -> int:
        at = bisect_left(self._ends, started)
        return self._lows[at - 1] if at else 0

    def high(self, ended: float) -> int:
        """The newest revision that can have been there when the request ended: later requests got it or more."""
        at = bisect_left(self._starts, -ended)
        return self._highs[at - 1] if at else _NONE


def _running(points: list[tuple[float, int]], choose: Callable[[int, int], int]) -> tuple[list[float], list[int]]:
    points = sorted(points)
    times, values = [], []
    best: int | None = None
    for time, revision in points:
        best = revision if best is None else choose(best, revision)
        times.append(time)
        values.append(best)
    return times, values


def _write(write: Write, truth: Truth, bounds: Bounds) -> list[str]:
    what = f"the {write.verb} of {write.key} ({write.value or write.uid})"
    low, high = bounds.low(write.started), bounds.high(write.ended)
    if write.outcome == REFUSED:
        return _refused(write, what, truth, low, high)
    if write.outcome != OK:
        return []
    if went_away(write):
        uid = write.state.uid if write.state else write.uid
        story = truth.keys.get(write.key, [])
        for (_, before), (revision, state) in itertools.pairwise(story):
            if state is None and before is not None and before.uid == uid:
                return [] if low < revision <= high else [f"{what} came at {revision}, out of time: ({low}, {high}]"]
        return [f"{what} was acknowledged, and {uid} never went away"]
    found = []
    before_revision, before = truth.at(write.key, write.revision - 1)
    unchanged = write.verb == "delete" and write.revision <= low  # it was being deleted already
    if not unchanged and not low < write.revision:
        found.append(f"{what} got revision {write.revision}, though {low} had been given out before it began")
    if write.verb == "create" and before is not None:
        found.append(f"{what} was acknowledged at {write.revision}, where {before} existed since {before_revision}")
    if write.verb != "create" and before is None:
        found.append(f"{what} was acknowledged at {write.revision}, where nothing existed")
    if write.expected and before_revision != write.expected:
        found.append(f"{what} was made from {write.expected} and replaced {before_revision}")
    return found


def _refused(write: Write, what: str, truth: Truth, low: int, high: int) -> list[str]:
    """There must have been a moment at which the refusal was right."""

    def right(revision: int, state: State | None) -> bool:
        if write.code == 404:
            return state is None
        if write.verb == "create":
            return state is not None
        if write.expected:
            return revision != write.expected
        return not write.uid or state is None or state.uid != write.uid

    if write.code not in (404, 409) or any(right(*moment) for moment in truth.between(write.key, low, high)):
        return []
    return [f"{what} was refused with {write.code}, and never between {low} and {high} was that right"]


def _read(read: Read, truth: Truth, bounds: Bounds) -> list[str]:
    low = bounds.low(read.started)
    found = []
    if read.revision < low:
        found.append(f"a list at {read.revision} is stale: {low} had been given out before it began")
    return found + _same(f"a list at {read.revision}", read.objects, read.revision, truth, "")


def _same(what: str, objects: dict[str, tuple[int, State]], revision: int, truth: Truth, color: str) -> list[str]:
    found = []
    for key in truth.keys.keys() | objects.keys():
        at, state = truth.at(key, revision)
        expected = (at, state) if state is not None and color in ("", state.color) else None
        if objects.get(key) != expected:
            found.append(f"{what} shows {key} as {objects.get(key)}; it was {expected}")
    return found


# --------------------------------------------------------------------------- watches


def expected_events(truth: Truth, after: int, up_to: int, color: str) -> list[Seen]:
    """What a watch with this selector must be told, in order."""
    events = []
    for key, story in truth.keys.items():
        before: State | None = None
        for revision, state in story:
            was = before is not None and color in ("", before.color)
            now = state is not None and color in ("", state.color)
            if after < revision <= up_to:
                if now and state is not None:
                    events.append(Seen("MODIFIED" if was else "ADDED", key, revision, state))
                elif was and before is not None:
                    events.append(Seen("DELETED", key, revision, before))
            before = state
    return sorted(events, key=lambda seen: seen.revision)


def _watched(watched: Watched, truth: Truth) -> list[str]:
    found = [f"{watched.name}: {trouble}" for trouble in watched.troubles]
    if watched.initial is not None:
        found += _same(f"{watched.name}, which began at {watched.start},", watched.initial, watched.start, truth, watched.color)
    revisions = [seen.revision for seen in watched.events]
    if any(later <= earlier for earlier, later in itertools.pairwise(revisions)):
        found.append(f"{watched.name}: events out of order, or told twice")
    expected = expected_events(truth, watched.start, watched.reached, watched.color)
    if watched.events != expected:
        told, due = set(watched.events), set(expected)
        found += [f"{watched.name} ({watched.start} to {watched.reached}) missed {one}" for one in expected if one not in told]
        found += [f"{watched.name} was told wrongly of {one}" for one in watched.events if one not in due]
    return found
