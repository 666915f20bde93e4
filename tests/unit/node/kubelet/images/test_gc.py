"""Image collection: which images go, in which order, and which never do."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component.clock import FakeClock
from component.metrics import Registry
from cri.api import runtime_v1_pb2 as pb
from cri.fake import FakeContainerd
from node.kubelet.eviction.signals import Observation
from node.kubelet.images import gc
from node.kubelet.images.gc import ImageCollector, Policy, Record, SpaceError
from tests.support.pod_workers import EventList

RECORDS = {
    "used now": Record(10, False, 0.0, 100.0),
    "pinned": Record(10, True, 0.0, 0.0),
    "never used": Record(10, False, 5.0, 0.0),
    "used long ago": Record(10, False, 0.0, 20.0),
    "older": Record(10, False, 1.0, 0.0),
    "young": Record(10, False, 95.0, 96.0),
}


def test_the_least_recently_used_goes_first() -> None:
    assert gc.in_order(RECORDS, 100.0) == ["older", "never used", "used long ago", "young"]


def test_only_so_many_go_as_are_needed_and_none_too_young() -> None:
    assert gc.to_free(RECORDS, 11, 100.0, 10.0) == ["older", "never used"]
    assert gc.to_free(RECORDS, 1000, 100.0, 10.0) == ["older", "never used", "used long ago"]
    assert gc.to_free(RECORDS, 0, 100.0, 10.0) == []


def test_age_counts_from_the_last_use_and_not_from_before_this_kubelet() -> None:
    assert gc.too_old(RECORDS, 100.0, 50.0, 0.0) == ["older", "never used", "used long ago"]
    assert gc.too_old(RECORDS, 100.0, 50.0, 60.0) == []
    assert gc.too_old(RECORDS, 100.0, 0.0, 0.0) == []


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.builds(Record, st.integers(0, 50), st.booleans(), st.floats(0, 100), st.floats(0, 100)),
    ),
    st.integers(0, 300),
)
def test_what_is_freed_is_enough_and_no_more(records: dict[str, Record], wanted: int) -> None:
    chosen = gc.to_free(records, wanted, 100.0, 0.0)

    assert not any(records[each].pinned or records[each].used >= 100.0 for each in chosen)
    if chosen:
        assert sum(records[each].size for each in chosen[:-1]) < wanted
    if sum(records[each].size for each in chosen) < wanted:
        assert chosen == gc.in_order(records, 100.0)


class Machine:
    """A runtime with images on a file system of which a test says how full it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **policy: Any) -> None:
        self.clock = FakeClock()
        self.runtime = FakeContainerd(self.clock)
        self.runtime.images.clear()
        self.events = EventList()
        self.free = 50

        async def kept() -> str:
            await self.clock.advance(0.5)  # a look takes its time
            return "registry.test/pause:1"

        monkeypatch.setattr(gc, "filesystem", lambda path: (Observation(self.free, 100), Observation(1, 1)))
        self.collector = ImageCollector(
            self.runtime, self.runtime, self.clock, Policy(**policy), self.events, "n", Registry(), kept
        )

    def add(self, name: str, size: int = 10, **more: Any) -> None:
        self.runtime.images[name] = pb.Image(id=f"sha256:{name}", repo_tags=[name], size=size, **more)

    def names(self) -> set[str]:
        return set(self.runtime.images)


async def test_a_full_disk_loses_unused_images_down_to_the_low_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, high=85, low=80)
    for name in ("a:1", "b:1", "registry.test/pause:1"):
        machine.add(name)
    await machine.collector.collect()
    assert machine.names() == {"a:1", "b:1", "registry.test/pause:1"}, "the disk is not full"

    machine.free = 12
    await machine.clock.advance(gc.PERIOD)
    await machine.collector.collect()

    assert machine.names() == {"b:1", "registry.test/pause:1"}
    assert machine.collector.mountpoint == Path("/")


async def test_too_little_to_free_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.free = 5
    machine.add("a:1", size=3)
    await machine.clock.advance(gc.PERIOD)

    with pytest.raises(SpaceError, match="Attempted to free 15 bytes, but only found 3 bytes eligible to free"):
        await machine.collector.collect()
    assert machine.events.reasons() == ["FreeDiskSpaceFailed"]


async def test_images_grow_old(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, max_age=800.0)
    machine.add("a:1")
    machine.add("keep:1", pinned=True)
    for _ in range(3):
        await machine.collector.collect()
        assert "a:1" in machine.names()
        await machine.clock.advance(gc.PERIOD)
    await machine.collector.collect()

    assert machine.names() == {"keep:1"}


async def test_under_pressure_every_unused_image_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.add("young:1")
    machine.add("registry.test/pause:1")

    await machine.collector.delete_unused()

    assert machine.names() == {"registry.test/pause:1"}
