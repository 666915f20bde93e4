"""Which thresholds act and which conditions the node has, over time."""

from hypothesis import given
from hypothesis import strategies as st

from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.decide import Memory, decide, met
from node.kubelet.eviction.signals import Observation
from node.kubelet.eviction.thresholds import Amount, Threshold

HARD = Threshold(t.MEMORY, Amount(100))
SOFT = Threshold(t.NODEFS, Amount(share=0.2), grace=60.0, reclaim=Amount(50))
PIDS = Threshold(t.PID, Amount(10))
MEMORY_LOW = {t.MEMORY: Observation(99, 1000)}
DISK_LOW = {t.NODEFS: Observation(199, 1000)}
TRANSITION = 300.0


def test_a_hard_threshold_acts_at_once() -> None:
    decision = decide([HARD, SOFT], MEMORY_LOW, Memory(), 0.0, TRANSITION)

    assert (decision.conditions, decision.act) == (("MemoryPressure",), (HARD,))


def test_just_enough_is_enough() -> None:
    assert met([HARD], {t.MEMORY: Observation(100, 1000)}) == []
    assert met([HARD], {}) == [], "nothing is done on a guess"


def test_a_soft_threshold_tells_at_once_and_acts_after_its_grace() -> None:
    first = decide([SOFT], DISK_LOW, Memory(), 0.0, TRANSITION)
    early = decide([SOFT], DISK_LOW, first.memory, 59.0, TRANSITION)
    late = decide([SOFT], DISK_LOW, early.memory, 60.0, TRANSITION)

    assert first.conditions == early.conditions == late.conditions == ("DiskPressure",)
    assert (first.act, early.act, late.act) == ((), (), (SOFT,))


def test_a_soft_threshold_begins_anew_when_it_was_left_in_between() -> None:
    first = decide([SOFT], DISK_LOW, Memory(), 0.0, TRANSITION)
    well = decide([SOFT], {t.NODEFS: Observation(900, 1000)}, first.memory, 30.0, TRANSITION)
    again = decide([SOFT], DISK_LOW, well.memory, 61.0, TRANSITION)

    assert again.act == ()


def test_a_threshold_acts_until_its_least_amount_was_reclaimed() -> None:
    memory = Memory()
    for moment in (0.0, 60.0):
        memory = decide([SOFT], DISK_LOW, memory, moment, TRANSITION).memory
    barely = decide([SOFT], {t.NODEFS: Observation(249, 1000)}, memory, 70.0, TRANSITION)
    enough = decide([SOFT], {t.NODEFS: Observation(250, 1000)}, barely.memory, 80.0, TRANSITION)

    assert (barely.act, enough.act) == ((SOFT,), ())


def test_a_condition_outlives_its_cause() -> None:
    first = decide([HARD], MEMORY_LOW, Memory(), 0.0, TRANSITION)
    well = {t.MEMORY: Observation(900, 1000)}
    soon = decide([HARD], well, first.memory, 299.0, TRANSITION)
    later = decide([HARD], well, soon.memory, 300.0, TRANSITION)

    assert (soon.conditions, soon.act) == (("MemoryPressure",), ())
    assert later.conditions == ()


def test_memory_comes_first_and_processes_last() -> None:
    disk = Threshold(t.NODEFS, Amount(share=0.2))
    seen = {**DISK_LOW, **MEMORY_LOW, t.PID: Observation(1, 100)}

    assert decide([PIDS, disk, HARD], seen, Memory(), 0.0, TRANSITION).act == (HARD, disk, PIDS)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30))
def test_who_acts_has_its_condition_and_an_idle_node_forgets(available: list[int]) -> None:
    memory, now = Memory(), 0.0
    for left in available:
        decision = decide([HARD], {t.MEMORY: Observation(left, 1000)}, memory, now, 25.0)
        assert ("MemoryPressure" in decision.conditions) >= bool(decision.act)
        assert bool(decision.act) == (left < 100)
        memory, now = decision.memory, now + 10.0
    assert decide([HARD], {t.MEMORY: Observation(500, 1000)}, memory, now + 25.0, 25.0).memory == Memory()
