"""One change as the cacher sees it: the entry before, the entry after, and the frames made from them, each once.

Made by ``cacher`` from a backend's event; kept by ``history``; offered to every ``watcher`` it may concern.
"""

from controlplane.apiserver.storage import frames
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import Matches


class Event:
    """``entry`` is None for a deletion, ``previous`` for a creation; never both."""

    __slots__ = ("_frames", "_judged", "entry", "key", "previous", "revision", "time")

    def __init__(self, key: str, revision: int, entry: StoredEntry | None, previous: StoredEntry | None, time: float) -> None:
        self.key, self.revision, self.entry, self.previous, self.time = key, revision, entry, previous, time
        self._frames: dict[str, Frame] = {}
        self._judged: tuple[Matches | None, Frame | None] | None = None

    @property
    def size(self) -> int:
        """Bytes that are held for this event alone: of the state it ended."""
        return len(self.previous.item) if self.previous is not None else 0

    def frame(self, matches: Matches | None) -> Frame | None:
        """What a watcher with this selector gets. Leaving the selector is a deletion to it, entering one a creation."""
        judged = self._judged
        if judged is not None and judged[0] is matches:  # those who watch the same come one after the other
            return judged[1]
        frame = self._frame(matches)
        self._judged = (matches, frame)
        return frame

    def forget_frames(self) -> None:
        """Free the encoded lines; whoever holds a frame keeps it."""
        self._frames = {}
        self._judged = None

    def _frame(self, matches: Matches | None) -> Frame | None:
        new, old = self.entry, self.previous
        was = old is not None and (matches is None or matches(old.traits))
        if new is not None and (matches is None or matches(new.traits)):
            return self._shared(frames.MODIFIED if was else frames.ADDED)
        return self._shared(frames.DELETED) if was else None

    def _shared(self, kind: str) -> Frame:
        frame = self._frames.get(kind)
        if frame is None:
            entry = self.entry
            if kind == frames.DELETED:
                assert self.previous is not None
                entry = self.previous.at(self.revision)
            assert entry is not None
            frame = self._frames[kind] = Frame(kind, entry, self.revision)
        return frame
