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
