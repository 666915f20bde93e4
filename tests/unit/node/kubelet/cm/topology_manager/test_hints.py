"""The algebra of hints: what is folded is what a walk through every combination finds, whatever the order."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet.cm.interface import TopologyHint
from node.kubelet.cm.topology_manager.hints import Nodes, Numa, by_resource, merge

FOUR = frozenset(range(4))
RING = {0: (10, 12, 20, 12), 1: (12, 10, 12, 20), 2: (20, 12, 10, 12), 3: (12, 20, 12, 10)}


def hint(*nodes: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(frozenset(nodes) or None, preferred)


def walked(numa: Numa, alternatives: list[list[TopologyHint]]) -> TopologyHint:
    """Upstream's way: every combination is compared with the best so far."""
    counts = [min((len(each.affinity) for each in hints if each.affinity), default=0) for hints in alternatives]
    target = max(counts, default=0)
    best: TopologyHint | None = None
    for combination in product(*alternatives):
        named = [each.affinity for each in combination if each.affinity is not None]
        shared = numa.nodes.intersection(*named)
        agreed = all(each == named[0] for each in named)
        candidate = TopologyHint(shared, agreed and all(each.preferred for each in combination))
        if shared:
            best = candidate if best is None else better(numa, best, candidate, target)
    return best or TopologyHint(numa.nodes, False)


def better(numa: Numa, current: TopologyHint, candidate: TopologyHint, target: int) -> TopologyHint:
    assert current.affinity
    assert candidate.affinity
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    here, there = len(current.affinity), len(candidate.affinity)
    if current.preferred or here > target:
        return fitter(numa, current, candidate)
    if here == target:
        return fitter(numa, current, candidate) if there == target else current
    if there > target:
        return current
    if there == target or there > here:
        return candidate
    return current if there < here else fitter(numa, current, candidate)


def fitter(numa: Numa, current: TopologyHint, candidate: TopologyHint) -> TopologyHint:
    def weight(nodes: Nodes | None) -> tuple[int, float, int]:
        assert nodes
        near = sum(RING[one][other] for one in nodes for other in nodes) / len(nodes) ** 2 if numa.distances else 0
        return len(nodes), near, sum(2**node for node in nodes)

    return candidate if weight(candidate.affinity) < weight(current.affinity) else current


node_sets = st.sets(st.integers(0, 3), min_size=1).map(frozenset)
hints = st.builds(TopologyHint, st.one_of(st.none(), node_sets), st.booleans())
alternatives = st.lists(st.lists(hints, min_size=1, max_size=5), max_size=4)


@given(alternatives, st.booleans())
def test_folding_finds_what_walking_finds(listed: list[list[TopologyHint]], near: bool) -> None:
    numa = Numa(FOUR, RING if near else {})

    assert merge(numa, listed) == walked(numa, listed)


@given(alternatives, st.randoms(use_true_random=False))
def test_the_order_of_providers_and_of_hints_does_not_matter(listed: list[list[TopologyHint]], random: object) -> None:
    shuffled = [list(each) for each in listed]
    for each in (*shuffled, shuffled):
        random.shuffle(each)  # type: ignore[attr-defined]

    assert merge(Numa(FOUR), shuffled) == merge(Numa(FOUR), listed)


@given(alternatives)
def test_a_provider_that_does_not_mind_changes_nothing(listed: list[list[TopologyHint]]) -> None:
    assert merge(Numa(FOUR), [*listed, [hint()]]) == merge(Numa(FOUR), listed)


@given(alternatives)
def test_what_is_preferred_was_preferred_by_all_and_named_by_all_alike(listed: list[list[TopologyHint]]) -> None:
    best = merge(Numa(FOUR), listed)

    if best.preferred:
        everyone = all(hint() in each or TopologyHint(best.affinity, True) in each for each in listed)
        assert everyone or best.affinity == FOUR


def test_many_devices_on_many_nodes_are_no_burden() -> None:
    """Five resources that could be on any of the 255 sets of eight nodes: 255 to the fifth combinations."""
    every = [frozenset(node for node in range(8) if bits >> node & 1) for bits in range(1, 256)]
    listed = [[TopologyHint(nodes, len(nodes) == 1) for nodes in every]] * 5

    assert merge(Numa(frozenset(range(8))), listed) == hint(0)


@pytest.mark.parametrize(
    ("provided", "expected"),
    [
        pytest.param([{}], [(hint(),)], id="a provider without any wish"),
        pytest.param([{"cpu": None}], [(hint(),)], id="a resource without a wish"),
        pytest.param([{"cpu": []}], [(hint(preferred=False),)], id="a resource that fits nowhere"),
        pytest.param([{"b": [hint(1)], "a": [hint(0)]}, {}], [[hint(0)], [hint(1)], (hint(),)], id="several"),
    ],
)
def test_what_providers_say(provided: list[dict[str, list[TopologyHint] | None]], expected: list[object]) -> None:
    assert by_resource(provided) == expected


@pytest.mark.parametrize(
    ("listed", "near", "expected"),
    [
        pytest.param([], False, hint(0, 1, 2, 3), id="nobody asks: anywhere"),
        pytest.param([[hint(0), hint(1)], [hint(1)]], False, hint(1), id="the one both prefer"),
        pytest.param([[hint(0)], [hint(1)]], False, hint(0, 1, 2, 3, preferred=False), id="nothing in common"),
        pytest.param([[hint(0), hint(0, 1, preferred=False)], [hint(1)]], False, hint(1, preferred=False), id="a compromise"),
        pytest.param([[hint(2, 0), hint(0, 1)]], True, hint(0, 1), id="of two pairs the nearer"),
        pytest.param([[hint(0, 2), hint(1, 2)]], False, hint(0, 2), id="of two pairs the lower"),
        pytest.param([[hint(0, 2), hint(1, 2)]], True, hint(1, 2), id="distance comes before number"),
    ],
)
def test_merges(listed: list[list[TopologyHint]], near: bool, expected: TopologyHint) -> None:
    assert merge(Numa(FOUR, RING if near else {}), listed) == expected
