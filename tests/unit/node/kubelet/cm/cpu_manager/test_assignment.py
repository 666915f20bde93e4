"""Which CPUs are taken: upstream's own examples, and what holds on every machine."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.kubelet.cm import cpuset
from node.kubelet.cm.cpu_manager.assignment import NotEnoughCpusError, distributed, packed
from node.kubelet.cm.topology import CORE, NODE, SOCKET, UNCORE
from tests.support.numa import DESKTOP, EPYC, SMALL_NUMA, XEON, Shape

FOUR_NODES = Shape(sockets=2, nodes_per_socket=2, cores_per_node=4)
CACHES = Shape(cores_per_node=16, threads=2, cores_per_cache=4)
MACHINES = [DESKTOP, XEON, SMALL_NUMA, FOUR_NODES, CACHES]


@pytest.mark.parametrize(
    ("shape", "free", "count", "taken"),
    [
        pytest.param(DESKTOP, "0-7", 1, "0", id="one CPU of the first core"),
        pytest.param(DESKTOP, "1-7", 1, "4", id="rather of a core that is broken already"),
        pytest.param(DESKTOP, "0-7", 2, "0,4", id="two are one core"),
        pytest.param(DESKTOP, "0-7", 5, "0-2,4-5", id="two cores and a thread"),
        pytest.param(DESKTOP, "1-7", 2, "1,5", id="a whole core before the broken one"),
        pytest.param(DESKTOP, "0-7", 8, "0-7", id="all"),
        pytest.param(XEON, "0-31", 16, "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30", id="a whole socket"),
        pytest.param(SMALL_NUMA, "0-11", 6, "0-2,6-8", id="six are a socket of three cores"),
        pytest.param(SMALL_NUMA, "1-11", 6, "3-5,9-11", id="the socket that is whole"),
        pytest.param(SMALL_NUMA, "0-2,4-11", 2, "4,10", id="from the socket that is broken already"),
        pytest.param(FOUR_NODES, "0-15", 4, "0-3", id="a whole node"),
        pytest.param(FOUR_NODES, "0-15", 8, "0-7", id="a whole socket of two nodes"),
        pytest.param(FOUR_NODES, "1-15", 4, "4-7", id="the node that is whole, on the socket with less"),
        pytest.param(FOUR_NODES, "0-15", 0, "", id="nothing"),
    ],
)
def test_packed(shape: Shape, free: str, count: int, taken: str) -> None:
    assert cpuset.show(packed(shape.topology(), cpuset.parse(free), count)) == taken


@pytest.mark.parametrize(
    ("shape", "free", "count", "taken"),
    [
        pytest.param(DESKTOP, "0-7", 4, "0-3", id="one of each core"),
        pytest.param(DESKTOP, "1-7", 3, "1-3", id="as far as there are cores"),
        pytest.param(SMALL_NUMA, "0-11", 2, "0-1", id="on one socket"),
    ],
)
def test_spread(shape: Shape, free: str, count: int, taken: str) -> None:
    assert cpuset.show(packed(shape.topology(), cpuset.parse(free), count, spread=True)) == taken


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        pytest.param("0-31", 8, "0-3,16-19", id="a whole cache"),
        pytest.param("1-31", 8, "4-7,20-23", id="another that is whole"),
        pytest.param("0-3,5-31", 2, "0,16", id="the cache with whole cores, as the first of the broken one has not two"),
        pytest.param("0-31", 10, "0-4,16-20", id="a whole one and a core of the next"),
        pytest.param("0-31", 3, "0-1,16", id="an odd number"),
        pytest.param("0,4,8,12", 2, "0,4", id="none has enough: as near as they are"),
    ],
)
def test_by_cache(free: str, count: int, taken: str) -> None:
    assert cpuset.show(packed(CACHES.topology(), cpuset.parse(free), count, by_cache=True)) == taken


@pytest.mark.parametrize(
    ("shape", "free", "count", "group", "taken"),
    [
        pytest.param(FOUR_NODES, "0-15", 4, 1, "0-3", id="one node has it"),
        pytest.param(FOUR_NODES, "0-15", 6, 1, "0-2,4-6", id="three of two nodes each"),
        pytest.param(FOUR_NODES, "0-15", 9, 1, "0-2,4-6,8-10", id="three of three nodes each"),
        pytest.param(FOUR_NODES, "0-15", 7, 1, "0-3,4-6", id="the odd one from the first"),
        pytest.param(SMALL_NUMA, "0-11", 8, 2, "0-1,3-4,6-7,9-10", id="two cores of each"),
        pytest.param(SMALL_NUMA, "0-11", 7, 2, "0-2,3,6-8", id="no whole cores: packed"),
        pytest.param(XEON, "0-31", 20, 2, "0-9,16-25", id="five cores of each socket"),
    ],
)
def test_distributed(shape: Shape, free: str, count: int, group: int, taken: str) -> None:
    found = distributed(shape.topology(), cpuset.parse(free), count, group)

    assert found == cpuset.parse(taken), cpuset.show(found)


DUAL = Shape(sockets=2, cores_per_node=3, threads=2, interleaved=True)
MULTI = Shape(sockets=2, nodes_per_socket=2, cores_per_node=10, threads=2)
NO_SMT = Shape(cores_per_node=16, cores_per_cache=4)
DUAL_NO_SMT = Shape(sockets=2, cores_per_node=8, cores_per_cache=4)
SMT = Shape(cores_per_node=8, threads=2, cores_per_cache=4)
TWO_NUMA = Shape(nodes_per_socket=2, cores_per_node=8, cores_per_cache=4)


@pytest.mark.parametrize(
    ("shape", "free", "count", "taken"),
    [
        (DESKTOP, "1,3,5-7", 1, "6"),
        (DESKTOP, "0-3,6", 2, "2,6"),
        (DUAL, "0-11", 6, "0,2,4,6,8,10"),
        (DUAL, "1-5,7-11", 1, "2"),
        (DUAL, "0-11", 8, "0-2,4,6-8,10"),
        (MULTI, "0-79", 40, "0-19,40-59"),
        (MULTI, "0-79", 20, "0-9,40-49"),
        (MULTI, "10-39,50-79", 20, "10-19,50-59"),
        (MULTI, "0-79", 60, "0-29,40-69"),
        (MULTI, "1-39,41-79", 60, "10-39,50-79"),
        (MULTI, "0-79", 64, "0-31,40-71"),
    ],
)
def test_packed_as_upstream_packs(shape: Shape, free: str, count: int, taken: str) -> None:
    """The cases that upstream's own tests judge by, with their results."""
    assert cpuset.show(packed(shape.topology(), cpuset.parse(free), count)) == taken


@pytest.mark.parametrize(
    ("shape", "free", "count", "taken"),
    [
        (NO_SMT, "1-15", 10, "1-2,4-11"),
        (DUAL_NO_SMT, "0-15", 4, "0-3"),
        (DUAL_NO_SMT, "2-15", 6, "2-7"),
        (DUAL_NO_SMT, "8-15", 4, "8-11"),
        (TWO_NUMA, "3-8,12", 2, "4-5"),
        (SMT, "2-7,10-15", 6, "4-6,12-14"),
        (SMT, "1-7,9-15", 10, "1,4-7,9,12-15"),
    ],
)
def test_by_cache_as_upstream(shape: Shape, free: str, count: int, taken: str) -> None:
    assert cpuset.show(packed(shape.topology(), cpuset.parse(free), count, by_cache=True)) == taken


@pytest.mark.parametrize(
    ("shape", "free", "count", "taken"),
    [
        (DUAL, "0-11", 2, "0,2"),
        (DUAL, "0-11", 3, "0,2,4"),
        (DUAL, "0-11", 8, "0-4,6,8,10"),
        (FOUR_NODES, "0-15", 2, "0-1"),
        (MULTI, "0-79", 8, "0-7"),
    ],
)
def test_spread_as_upstream_spreads(shape: Shape, free: str, count: int, taken: str) -> None:
    assert cpuset.show(packed(shape.topology(), cpuset.parse(free), count, spread=True)) == taken


@pytest.mark.parametrize(
    ("shape", "free", "count", "group", "taken"),
    [
        (DUAL, "0-11", 8, 1, "0-3,6-9"),
        (DUAL, "1-5,7-11", 1, 1, "1"),
        (DUAL, "1-5,7-11", 1, 2, "2"),
        (MULTI, "0-79", 64, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-67,70-77"),
        (MULTI, "0-79", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
        (MULTI, "1-29,32-39,41-69,72-79", 48, 1, "1-8,10-17,20-27,41-48,50-57,60-67"),
        (MULTI, "2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
        (MULTI, "0-2,10-12,20-22,30-32,40-41,50-51,60-61,70-71", 16, 1, "0-1,10-11,20-21,30-31,40-41,50-51,60-61,70-71"),
        (MULTI, "0-79", 26, 1, "0-6,10-16,40-45,50-55"),
        (MULTI, "0-79", 26, 2, "0-6,10-15,40-46,50-55"),
        (MULTI, "0-79", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        (MULTI, "0-79", 62, 2, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
        (MULTI, "0-8,10-18,20-48,50-58,60-79", 62, 1, "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77"),
        (MULTI, "0-8,10-18,20-48,50-58,60-79", 62, 2, "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77"),
        (
            *(MULTI, "0-3,10-13,20-23,30-36,40-43,50-53,60-63,70-76", 34, 1),
            "0-3,10-13,20-23,30-34,40-43,50-53,60-63,70-74",
        ),
        (
            EPYC,
            "0,30-31,43-47,62-63,75-79,94,96,101-111,126-128,158-159,171-175,190-191,203-207,222-223,229-239,254-255",
            *(28, 1, "43-47,75-79,96,101-105,171-174,203-206,229-232"),
        ),
    ],
)
def test_distributed_as_upstream_distributes(shape: Shape, free: str, count: int, group: int, taken: str) -> None:
    assert cpuset.show(distributed(shape.topology(), cpuset.parse(free), count, group)) == taken


def test_too_many() -> None:
    text = "not enough cpus available to satisfy request: requested=3, available=2"
    with pytest.raises(NotEnoughCpusError, match=text):
        packed(DESKTOP.topology(), frozenset({1, 2}), 3)
    with pytest.raises(NotEnoughCpusError, match=text):
        distributed(DESKTOP.topology(), frozenset({1, 2}), 3)


@settings(max_examples=40)
@given(st.data(), st.sampled_from(MACHINES), st.booleans(), st.booleans())
def test_just_as_many_as_asked_for_and_only_free_ones(data: st.DataObject, shape: Shape, spread: bool, by_cache: bool) -> None:
    topology = shape.topology()
    free = data.draw(st.frozensets(st.sampled_from(sorted(topology.all))))
    count = data.draw(st.integers(0, len(free)))
    group = data.draw(st.sampled_from([1, topology.cpus_per_core]))
    for taken in (packed(topology, free, count, spread=spread, by_cache=by_cache), distributed(topology, free, count, group)):
        assert taken <= free
        assert len(taken) == count


@settings(max_examples=40)
@given(st.data(), st.sampled_from(MACHINES))
def test_whole_cores_stay_whole(data: st.DataObject, shape: Shape) -> None:
    """Where all free cores are whole and whole cores are asked for, none is broken."""
    topology = shape.topology()
    cores = data.draw(st.frozensets(st.sampled_from(sorted(topology.ids(CORE)))))
    count = data.draw(st.integers(0, len(cores))) * topology.cpus_per_core
    for taken in (
        packed(topology, topology.inside(CORE, cores), count),
        packed(topology, topology.inside(CORE, cores), count, by_cache=True),
        distributed(topology, topology.inside(CORE, cores), count, topology.cpus_per_core),
    ):
        assert topology.inside(CORE, topology.ids(CORE, taken)) == taken


@settings(max_examples=40)
@given(st.data(), st.sampled_from([FOUR_NODES, XEON, SMALL_NUMA]))
def test_one_node_is_enough_if_one_is_empty_and_large_enough(data: st.DataObject, shape: Shape) -> None:
    topology = shape.topology()
    count = data.draw(st.integers(1, len(topology.inside(NODE, [0]))))

    assert len(topology.ids(NODE, distributed(topology, topology.all, count))) == 1
    assert len(topology.ids(SOCKET, packed(topology, topology.all, count))) == 1


def test_a_large_machine() -> None:
    topology = EPYC.topology()

    taken = packed(topology, topology.all - {0, 128}, 16, by_cache=True)
    assert len(topology.ids(UNCORE, taken)) == 1
    assert len(distributed(topology, topology.all - {0, 128}, 200, 2)) == 200
