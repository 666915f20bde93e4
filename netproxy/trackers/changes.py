"""Folding: any number of changes to one key between two syncs become one (previous, current) pair, or none.

Used by the trackers of services and endpoints. Only touched keys cost anything, however many there are.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Changes(Generic[K, V]):
    """Pending changes. A value that goes from A to B and back to A leaves nothing behind."""

    def __init__(self, empty: V) -> None:
        self._empty = empty
        self._current: dict[K, V] = {}
        self._pending: dict[K, V] = {}

    def set(self, key: K, value: V) -> None:
        """The key's value is now this; the empty value removes the key."""
        before = self._current.get(key, self._empty)
        if value == before:
            return
        previous = self._pending.setdefault(key, before)
        if previous == value:
            del self._pending[key]
        if value == self._empty:
            self._current.pop(key, None)
        else:
            self._current[key] = value

    def get(self, key: K) -> V:
        return self._current.get(key, self._empty)

    def take(self) -> dict[K, tuple[V, V]]:
        """The pending pairs by key, in order of the first change; they are no longer pending."""
        pairs = {key: (previous, self._current.get(key, self._empty)) for key, previous in self._pending.items()}
        self._pending.clear()
        return pairs

    def __len__(self) -> int:
        """How many keys are pending."""
        return len(self._pending)
