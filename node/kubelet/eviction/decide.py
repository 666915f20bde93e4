"""From observations to what must happen: which thresholds are in force, which conditions the node has. Pure.

``manager`` keeps the :class:`Memory` between two calls. The steps and their order are upstream's: met > not yet resolved
(a threshold stays until its minimum was reclaimed) > conditions, kept for the transition period > grace periods > the first
to act upon, memory before disk before processes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.signals import Observations
from node.kubelet.eviction.thresholds import Threshold

_ORDER = (t.MEMORY, t.ALLOCATABLE_MEMORY)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next decision must know of this one; times are seconds of the clock given to :func:`decide`."""

    met: tuple[Threshold, ...] = ()
    met_since: Mapping[Threshold, float] = field(default_factory=dict)
    condition_seen: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """``conditions``: node conditions that are True now. ``act``: thresholds in force, the most urgent first."""

    conditions: tuple[str, ...]
    act: tuple[Threshold, ...]
    memory: Memory


def decide(thresholds: Sequence[Threshold], seen: Observations, memory: Memory, now: float, transition: float) -> Decision:
    """``transition``: seconds that a condition stays after its cause has gone."""
    found = met(thresholds, seen)
    unresolved = [each for each in met(memory.met, seen, with_reclaim=True) if each not in found]
    found += unresolved
    since = {each: memory.met_since.get(each, now) for each in found}
    last = {**memory.condition_seen, **{t.CONDITIONS[each.signal]: now for each in found}}
    last = {condition: when for condition, when in last.items() if now - when < transition or when == now}
    active = [each for each in found if now - since[each] >= each.grace]
    active.sort(key=lambda each: (each.signal not in _ORDER, each.signal == t.PID))
    return Decision(tuple(sorted(last)), tuple(active), Memory(tuple(active), since, last))


def met(thresholds: Iterable[Threshold], seen: Observations, *, with_reclaim: bool = False) -> list[Threshold]:
    """Those whose signal has fallen below; with the minimum to reclaim on top for those that were met before."""
    found = []
    for each in thresholds:
        observed = seen.get(each.signal)
        if observed is None:
            continue
        least = each.amount.of(observed.capacity)
        if with_reclaim:
            least += each.reclaim.of(observed.capacity)
        if observed.available < least:
            found.append(each)
    return found
