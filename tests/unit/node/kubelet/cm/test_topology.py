"""What is read out of ``/sys``: from laid-out trees of large machines, from odd ones, and from this very machine."""

import os
from pathlib import Path

import pytest

from node.kubelet.cm import cpuset
from node.kubelet.cm.topology import CORE, NODE, SOCKET, UNCORE, Cpu, collect, parse, read
from tests.support.numa import EPYC, XEON, Shape


def test_two_sockets_with_interleaved_numbers(tmp_path: Path) -> None:
    XEON.write(tmp_path)

    found = read(tmp_path)

    assert found.cpus[3] == Cpu(node=1, socket=1, core=3, uncore=1)
    assert found.cpus[19] == found.cpus[3], "the second thread of the same core"
    assert found.inside(NODE, [0]) == frozenset(range(0, 32, 2))
    assert (found.sockets, found.cpus_per_core, len(found.all)) == (2, 2, 32)
    assert found.nodes[1].size == 16 << 30
    assert found.nodes[1].distances == (32, 10)


def test_eight_nodes_and_sixteen_caches(tmp_path: Path) -> None:
    EPYC.write(tmp_path)

    found = read(tmp_path)

    assert found.ids(NODE) == set(range(8))
    assert found.inside(SOCKET, [1]) == cpuset.parse("64-127,192-255")
    assert found.inside(UNCORE, [3]) == cpuset.parse("24-31,152-159")
    assert len(found.ids(CORE)) == 128
    assert found.nodes[2].distances == (12, 12, 10, 12, 32, 32, 32, 32)


def test_huge_pages_are_counted_by_node() -> None:
    found = Shape(sockets=2, hugepages={2048: 512, 1048576: 4}).topology()

    assert found.nodes[1].hugepages == {2048: 512, 1048576: 4}


def test_a_cpu_that_is_off_is_not_there() -> None:
    files = Shape(cores_per_node=2, threads=2).files()
    found = parse({**files, "devices/system/cpu/online": "0,2-3"})

    assert found.all == {0, 2, 3}
    assert found.cpus[3].core == 3, "its sibling is off"


def test_a_machine_that_says_little_is_one_node() -> None:
    found = parse({"devices/system/cpu/online": "0-1", "devices/system/cpu/cpu0/topology/physical_package_id": "-1"})

    assert found.cpus == {0: Cpu(0, 0, 0, 0), 1: Cpu(0, 0, 1, 0)}
    assert list(found.nodes) == [0]


def test_a_machine_that_says_nothing() -> None:
    with pytest.raises(ValueError, match="/sys/devices/system/cpu/online is missing or empty"):
        parse({})


def test_this_machine() -> None:
    found = parse(collect())

    assert len(found.all) == os.cpu_count()
    assert found.ids(NODE) <= set(found.nodes)
    assert sum(node.size for node in found.nodes.values()) > 0


@pytest.mark.parametrize(("text", "cpus"), [("", set()), ("0", {0}), ("0-2,7\n", {0, 1, 2, 7}), ("3,1,2", {1, 2, 3})])
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert cpuset.parse(text) == cpus
    assert cpuset.parse(cpuset.show(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "-1", "1,,x"])
def test_bad_lists_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|invalid literal"):
        cpuset.parse(text)


def test_the_shortest_list_is_shown() -> None:
    assert cpuset.show([9, 3, 2, 1, 5]) == "1-3,5,9"
