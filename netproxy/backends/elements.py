"""Who wants which element of the shared sets and maps. Pure; used by the backends of nftables and ipvs.

Ports of one Service share its address in the set of cluster IPs, and two Services may claim the same external address and port:
of those the first by name has it, until it gives it up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from netproxy.trackers.services import PortName

R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ref = tuple[str, str]
"""A set or map, and a key in it."""


@dataclass(frozen=True, slots=True)
class Change(Generic[R, T_co]):
    """What becomes of one element; None for one that is not there."""

    ref: R
    old: T_co | None
    new: T_co | None


class Elements(Generic[R, T]):
    """Wanted elements by port, and which of them is in force."""

    def __init__(self) -> None:
        self._wanted: dict[R, dict[PortName, T]] = {}

    def change(self, port: PortName, old: Mapping[R, T], new: Mapping[R, T]) -> list[Change[R, T]]:
        """A port wants others than before; what that changes."""
        changes = []
        for ref in {**old, **new}:
            if old.get(ref) == new.get(ref):
                continue
            before = self._in_force(ref)
            wanted = self._wanted.setdefault(ref, {})
            if ref in new:
                wanted[port] = new[ref]
            else:
                wanted.pop(port, None)
            if not wanted:
                del self._wanted[ref]
            after = self._in_force(ref)
            if before != after:
                changes.append(Change(ref, before, after))
        return changes

    def _in_force(self, ref: R) -> T | None:
        wanted = self._wanted.get(ref)
        return wanted[min(wanted)] if wanted else None

    def in_force(self) -> Iterator[tuple[R, T]]:
        """All of them."""
        return ((ref, wanted[min(wanted)]) for ref, wanted in self._wanted.items())


def by_container(elements: Iterable[tuple[Ref, str | None]]) -> Mapping[str, Mapping[str, str]]:
    """Those that are there, by their set or map."""
    found: dict[str, dict[str, str]] = {}
    for (container, key), rest in elements:
        if rest is not None:
            found.setdefault(container, {})[key] = rest
    return found


def folded(changes: Iterable[Change[R, T]]) -> dict[R, tuple[T | None, T | None]]:
    """First and last state by element, without those that came back to where they were."""
    pairs: dict[R, tuple[T | None, T | None]] = {}
    for change in changes:
        first = pairs[change.ref][0] if change.ref in pairs else change.old
        pairs[change.ref] = (first, change.new)
    return {ref: pair for ref, pair in pairs.items() if pair[0] != pair[1]}
