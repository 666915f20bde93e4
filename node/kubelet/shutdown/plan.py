"""Which pods end when, and within how long. Pure; ``manager`` calls it when the machine is about to stop.

Rules: upstream's "Node Shutdowns" page. Lower priorities end first; a group without pods costs no time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.objects import pods

_CRITICAL = 2_000_000_000

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Pods from ``priority`` up to that of the next group have ``seconds`` to end."""

    priority: int
    seconds: int


def groups_of(total: int, critical: int, by_priority: Sequence[Group] = ()) -> tuple[Group, ...]:
    """From the configuration: either two grace periods (``critical`` is the part of ``total`` kept for critical pods) or a
    list by priority. Sorted by priority; empty where shutdown is not watched."""
    if by_priority:
        return tuple(sorted(by_priority, key=lambda group: group.priority))
    if total <= 0:
        return ()
    return Group(0, total - critical), Group(_CRITICAL, critical)


def inhibit_seconds(groups: Sequence[Group]) -> int:
    """How long the machine must be held back at most."""
    return sum(group.seconds for group in groups)


def assign(groups: Sequence[Group], listed: Sequence[Pod]) -> list[tuple[Group, list[Pod]]]:
    """Each pod into the highest group that its priority reaches, or the lowest; groups without pods are left out."""
    members: dict[Group, list[Pod]] = {group: [] for group in groups}
    for pod in listed:
        priority = pods.priority(pod)
        fitting = [group for group in groups if group.priority <= priority]
        members[fitting[-1] if fitting else groups[0]].append(pod)
    return [(group, found) for group, found in members.items() if found]


def grace(group: Group, pod: Pod) -> int:
    """Seconds for one pod: its own grace period, bounded by its group's."""
    own = pods.spec_of(pod).get("terminationGracePeriodSeconds")
    return group.seconds if own is None else min(int(own), group.seconds)
