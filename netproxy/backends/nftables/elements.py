"""Who wants which element of the shared sets and maps. Pure; used by ``backend``.

Ports of one Service share its address in the set of cluster IPs, and two Services may claim the same external address and port:
of those the first by name has it, until it gives it up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from netproxy.backends.nftables.render import Ref
from netproxy.trackers.services import PortName


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one element; None for one that is not there."""

    ref: Ref
    old: str | None
    new: str | None


class Elements:
    """Wanted elements by port, and which of them is in force."""

    def __init__(self) -> None:
        self._wanted: dict[Ref, dict[PortName, str]] = {}

    def change(self, port: PortName, old: Mapping[Ref, str], new: Mapping[Ref, str]) -> list[Change]:
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

    def _in_force(self, ref: Ref) -> str | None:
        wanted = self._wanted.get(ref)
        return wanted[min(wanted)] if wanted else None

    def in_force(self) -> Iterator[tuple[Ref, str]]:
        """All of them."""
        return ((ref, wanted[min(wanted)]) for ref, wanted in self._wanted.items())


def by_container(elements: Iterable[tuple[Ref, str | None]]) -> Mapping[str, Mapping[str, str]]:
    """Those that are there, by their set or map."""
    found: dict[str, dict[str, str]] = {}
    for (container, key), rest in elements:
        if rest is not None:
            found.setdefault(container, {})[key] = rest
    return found


def folded(changes: list[Change]) -> dict[Ref, tuple[str | None, str | None]]:
    """First and last state by element, without those that came back to where they were."""
    pairs: dict[Ref, tuple[str | None, str | None]] = {}
    for change in changes:
        first = pairs[change.ref][0] if change.ref in pairs else change.old
        pairs[change.ref] = (first, change.new)
    return {ref: pair for ref, pair in pairs.items() if pair[0] != pair[1]}
