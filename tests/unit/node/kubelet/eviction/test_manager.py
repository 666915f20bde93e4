"""The eviction manager over a node of figures, in virtual time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery.meta import uid_of
from component.clock import FakeClock
from component.metrics import Registry
from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.manager import EvictionManager
from node.kubelet.eviction.ranking import ContainerUsed, PodUsed, Usage
from node.kubelet.eviction.signals import Observation, Observations
from node.kubelet.eviction.thresholds import Amount, Threshold
from node.kubelet.pod_status import Failure
from node.kubelet.recorder import PodEvents
from tests.support.pod_workers import EventList

MI = 1 << 20


def pod(name: str, limit: str = "", priority: int = 0, grace: int = 30) -> dict[str, Any]:
    resources = {"limits": {"ephemeral-storage": limit}} if limit else {}
    spec = {
        "containers": [{"name": "main", "resources": resources}],
        "terminationGracePeriodSeconds": grace,
        "priority": priority,
    }
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


@dataclass
class Figures:
    """A node whose figures a test sets; evicted pods are gone at once and give back ``gives``."""

    seen: dict[str, Observation] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    used: dict[str, PodUsed] = field(default_factory=dict)
    evicted: list[tuple[str, int]] = field(default_factory=list)
    gives: int = 0

    async def observe(self) -> Observations:
        return dict(self.seen)

    def dedicated_image_fs(self) -> bool:
        return False

    def active_pods(self) -> Sequence[dict[str, Any]]:
        return list(self.pods)

    async def usage(self, listed: Sequence[Any]) -> Usage:
        return {uid_of(each): self.used.get(uid_of(each), PodUsed()) for each in listed}

    def end(self, pod: Any, failure: Failure, grace: int) -> None:
        assert (failure.reason, failure.disrupted) == ("Evicted", True)
        self.evicted.append((uid_of(pod), grace))
        self.pods = [each for each in self.pods if uid_of(each) != uid_of(pod)]
        self.seen = {signal: Observation(one.available + self.gives, one.capacity) for signal, one in self.seen.items()}

    def gone(self, pod: Any) -> bool:
        return True


def manager(
    node: Figures, events: EventList, *thresholds: Threshold, clock: FakeClock | None = None, **options: Any
) -> EvictionManager:
    return EvictionManager(node, thresholds, clock or FakeClock(), PodEvents(events), events, "n", Registry(), **options)


MEMORY = Threshold(t.MEMORY, Amount(100 * MI))
DISK = Threshold(t.NODEFS, Amount(share=0.1))


async def test_one_pod_at_a_time_until_there_is_enough() -> None:
    node = Figures(
        {t.MEMORY: Observation(50 * MI, 1000 * MI)},
        [pod("small"), pod("big"), pod("critical", priority=2_000_000_000)],
        {"big": PodUsed({"main": ContainerUsed(memory=500 * MI)})},
        gives=60 * MI,
    )
    events = EventList()
    evictions = manager(node, events, MEMORY)

    assert [uid_of(each) for each in await evictions.synchronize()] == ["big"]
    assert await evictions.synchronize() == ()
    assert node.evicted == [("big", 1)]
    assert events.reasons() == ["NodeHasInsufficientMemory", "EvictionThresholdMet", "Evicted"]
    assert "has larger consumption of memory" in events.seen[-1][1]
    assert evictions.conditions == ("MemoryPressure",), "it stays for the transition period"


async def test_nothing_but_critical_pods_left_is_no_reason_to_stop() -> None:
    node = Figures({t.MEMORY: Observation(1, 1000 * MI)}, [pod("critical", priority=2_000_000_000)])

    assert await manager(node, EventList(), MEMORY).synchronize() == ()
    assert node.evicted == []


async def test_disk_is_freed_before_anybody_is_evicted() -> None:
    node = Figures({t.NODEFS: Observation(50, 1000)}, [pod("a")])

    async def free() -> None:
        node.seen = {t.NODEFS: Observation(500, 1000)}

    assert await manager(node, EventList(), DISK, reclaim=[free]).synchronize() == ()
    assert node.evicted == []


async def test_memory_is_not_freed_by_removing_images() -> None:
    node = Figures({t.MEMORY: Observation(1, 1000 * MI)}, [pod("a")])
    freed: list[str] = []

    async def free() -> None:
        freed.append("images")

    await manager(node, EventList(), MEMORY, reclaim=[free]).synchronize()

    assert (freed, node.evicted) == ([], [("a", 1)])


async def test_a_soft_eviction_leaves_the_smaller_of_two_graces() -> None:
    soft = Threshold(t.MEMORY, Amount(100 * MI), grace=0.5)
    node = Figures({t.MEMORY: Observation(1, 1000 * MI)}, [pod("a", grace=30)])
    clock = FakeClock()
    evictions = manager(node, EventList(), soft, clock=clock, max_grace=7)

    await evictions.synchronize()
    assert node.evicted == []
    await clock.advance(1.0)
    await evictions.synchronize()
    assert node.evicted == [("a", 7)]


async def test_a_pod_above_its_own_limit_goes_without_any_pressure() -> None:
    node = Figures({}, [pod("a", limit="1Mi"), pod("b")], {"a": PodUsed({"main": ContainerUsed(rootfs=2 * MI)})})
    events = EventList()

    assert [uid_of(each) for each in await manager(node, events).synchronize()] == ["a"]
    assert events.seen == [("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ")]
    assert await manager(Figures({}, [pod("a", limit="1Mi")], node.used), EventList(), local_limits=False).synchronize() == ()
