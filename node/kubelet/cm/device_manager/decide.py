"""Which devices a container gets. Pure; ``manager`` asks, first without the plugin's opinion, then with it.

First the devices that init containers have left, then those on the NUMA nodes that the topology manager chose, then others.
Between devices that are as good the plugin may choose. Source: ``devicesToAllocate`` of upstream's ``devicemanager/manager.go``.
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass

from node.kubelet.cm.device_manager.devices import Devices

Ids = frozenset[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One container's wish. ``reusable``: devices that earlier init containers of its pod have no more need of."""

    resource: str
    count: int
    reusable: Ids = frozenset()

    def reused(self) -> list[str]:
        return sorted(self.reusable)[: self.count]


@dataclass(frozen=True, slots=True)
class Split:
    """The free devices by how well they lie. Where nothing is aligned, all are in ``anywhere``."""

    aligned: Ids
    unaligned: Ids
    anywhere: Ids

    @property
    def all(self) -> Ids:
        return self.aligned | self.unaligned | self.anywhere


@dataclass(frozen=True, slots=True)
class Question:
    """What the plugin is asked for its preference."""

    available: Ids
    must_include: Ids
    size: int


class UnavailableError(Exception):
    """There are not enough devices; the text is upstream's."""


def refuse(resource: str, healthy: Collection[str] | None, held: Ids) -> str:
    """Why nothing of a resource can be had now, whatever was asked for; "" if it can. ``healthy`` is None for a resource that
    has no plugin, ``held`` what the container had before."""
    if healthy is None:
        return f"cannot allocate unregistered device {resource}"
    if not healthy:
        return f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    if not held <= set(healthy):
        return f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
    return ""


def split(free: Ids, known: Devices, affinity: Set[int] | None) -> Split:
    """``affinity``: the NUMA nodes to prefer; None for no preference."""
    if affinity is None or not has_topology(known):
        return Split(frozenset(), frozenset(), free)
    anywhere = frozenset(each for each in free if each not in known or not known[each].nodes)
    aligned = frozenset(each for each in free - anywhere if affinity & set(known[each].nodes))
    return Split(aligned, free - anywhere - aligned, anywhere)


def has_topology(known: Devices) -> bool:
    """Whether any device of a resource says where it lies; if none does, the resource does not mind."""
    return any(device.nodes for device in known.values())


def question(wanted: Wanted, parts: Split) -> Question | None:
    """What to ask a plugin that has preferences; None if there is nothing to choose."""
    taken = frozenset(wanted.reused())
    needed = wanted.count - len(taken)
    if needed <= 0 or needed == len(parts.aligned):
        return None
    if needed < len(parts.aligned):
        return Question(parts.aligned | taken, taken, wanted.count)
    return Question(parts.all | taken, taken | parts.aligned, wanted.count)


def choose(wanted: Wanted, parts: Split, preferred: Iterable[str] = ()) -> Ids:
    """The devices to give. Raises UnavailableError."""
    taken = wanted.reused()
    needed = wanted.count - len(taken)
    if needed > len(parts.all):
        raise UnavailableError(
            f"requested number of devices unavailable for {wanted.resource}. Requested: {needed}, Available: {len(parts.all)}"
        )
    liked = [each for each in preferred if each in parts.all]
    inside = [each for each in liked if each in parts.aligned] if needed < len(parts.aligned) else []
    order = [*inside, *sorted(parts.aligned), *liked, *sorted(parts.unaligned), *sorted(parts.anywhere)]
    chosen = [each for each in dict.fromkeys(order) if each not in taken]
    return frozenset([*taken, *chosen[:needed]])
