"""From which nodes memory comes: alone, in groups, again after init containers; and what is refused."""

import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.kubelet.cm.interface import TopologyHint
from node.kubelet.cm.memory_manager.policy import StaticPolicy, reservations
from node.kubelet.cm.memory_manager.state import State
from tests.support.numa import Shape

GI = 1 << 30
TWO = Shape(sockets=2, memory=10 * GI, hugepages={1048576: 2})
"""Two nodes; each has 2 GiB of huge pages, and 7 GiB for pods beside 1 GiB that is reserved."""
FOUR = Shape(sockets=2, nodes_per_socket=2, memory=4 * GI, hugepages={})


class Affinity:
    def __init__(self, *nodes: int, preferred: bool = False) -> None:
        self.hint = TopologyHint(frozenset(nodes) or None, preferred)

    def affinity(self, uid: str, container: str) -> TopologyHint:
        return self.hint


def policy(shape: Shape = TWO, affinity: Affinity | None = None, state: State | None = None) -> StaticPolicy:
    reserved = {node: {"memory": GI} for node in range(shape.nodes)}
    made = StaticPolicy(shape.topology(), reserved, affinity or Affinity(), state or State("Static"))
    made.start()
    return made


def container(name: str, memory: str = "", huge: str = "", **more: Any) -> dict[str, Any]:
    listed = {"cpu": "1", **({"memory": memory} if memory else {}), **({"hugepages-1Gi": huge} if huge else {})}
    return {"name": name, "resources": {"requests": listed, "limits": listed}, **more}


def pod(*containers: dict[str, Any], uid: str = "u", init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"initContainers": list(init), "containers": list(containers)}}


def take(made: StaticPolicy, wanted: dict[str, Any]) -> dict[str, list[int]]:
    for each in (*wanted["spec"]["initContainers"], *wanted["spec"]["containers"]):
        made.allocate(wanted, each)
    return {each["name"]: sorted(made.nodes_of(wanted["metadata"]["uid"], each["name"])) for each in wanted["spec"]["containers"]}


def free(made: StaticPolicy, kind: str = "memory") -> list[int]:
    return [each.memory[kind].free // GI for each in made.state.machine.values()]


def test_what_a_node_has() -> None:
    table = policy().state.machine[0].memory

    assert (table["memory"].total, table["memory"].system_reserved, table["memory"].allocatable) == (10 * GI, GI, 7 * GI)
    assert table["hugepages-1Gi"].allocatable == 2 * GI


def test_small_ones_are_served_by_one_node_and_large_ones_by_a_group() -> None:
    made = policy(FOUR)

    assert take(made, pod(container("a", "2Gi"), uid="small")) == {"a": [0]}
    assert take(made, pod(container("a", "5Gi"), uid="large")) == {"a": [1, 2]}
    assert free(made) == [1, 0, 1, 3]
    assert take(made, pod(container("a", "3Gi"), uid="next")) == {"a": [3]}, "a node of a group serves nobody alone"
    with pytest.raises(ValueError, match="no NUMA nodes with enough memory is available"):
        take(made, pod(container("a", "2Gi"), uid="more"))
    assert made.release("large")
    assert free(made) == [1, 3, 3, 0]
    assert take(made, pod(container("a", "2Gi"), uid="more")) == {"a": [1]}


def test_who_has_memory_of_its_own() -> None:
    made = policy()
    burstable = pod(container("a", "1Gi"), uid="b")
    del burstable["spec"]["containers"][0]["resources"]["limits"]

    assert take(made, burstable) == {"a": []}
    assert take(made, pod(container("a", "1Gi"), uid="g")) == {"a": [0]}
    assert not made.allocate(pod(container("a", "1Gi"), uid="g"), container("a", "1Gi")), "it has it already"


def test_huge_pages_come_from_the_same_nodes() -> None:
    made = policy()

    assert take(made, pod(container("a", "1Gi", "3Gi"))) == {"a": [0, 1]}
    assert (free(made), free(made, "hugepages-1Gi")) == ([6, 7], [0, 1])


def test_init_containers_hand_their_memory_on() -> None:
    made = policy()
    wanted = pod(container("a", "2Gi"), container("b", "2Gi"), init=(container("i", "3Gi"), container("j", "1Gi")))

    assert take(made, wanted) == {"a": [0], "b": [0]}
    given = {name: sum(block.size for block in blocks) // GI for name, blocks in made.state.given["u"].items()}
    assert sum(given.values()) == (7 * GI - made.state.machine[0].memory["memory"].free) // GI
    assert made.release("u")
    assert free(made) == [7, 7]


def test_where_the_topology_manager_says() -> None:
    assert take(policy(affinity=Affinity(1)), pod(container("a", "1Gi"))) == {"a": [1]}
    assert take(policy(affinity=Affinity(1)), pod(container("a", "8Gi"))) == {"a": [0, 1]}, "more than it thought"
    made = policy(affinity=Affinity(1, preferred=True))
    made.state.machine[1].memory["memory"].free = 0
    with pytest.raises(ValueError, match="failed to find the extended preferred hint"):
        take(made, pod(container("a", "1Gi")))
    made = policy(FOUR)
    take(made, pod(container("a", "1Gi"), uid="x"))
    made._affinity = Affinity(0, 1)
    with pytest.raises(ValueError, match="preferred hint violates NUMA node allocation"):
        take(made, pod(container("a", "1Gi"), uid="y"))


def test_hints() -> None:
    made = policy()
    asked = pod(container("a", "2Gi", "1Gi"))
    both = [TopologyHint(frozenset({0}), True), TopologyHint(frozenset({1}), True), TopologyHint(frozenset({0, 1}), False)]

    assert made.hints(asked, asked["spec"]["containers"][0]) == {"memory": both, "hugepages-1Gi": both}
    assert made.pod_hints(asked) == {"memory": both, "hugepages-1Gi": both}
    large = pod(container("a", "9Gi"))
    assert made.hints(large, large["spec"]["containers"][0]) == {"memory": [TopologyHint(frozenset({0, 1}), True)]}
    take(made, asked)
    where = [TopologyHint(frozenset({0}), True)]
    assert made.hints(asked, asked["spec"]["containers"][0]) == {"memory": where, "hugepages-1Gi": where}
    other = pod(container("a", "1Gi"), uid="v")
    assert both[2] not in (made.hints(other, other["spec"]["containers"][0])["memory"] or ()), "node 0 serves alone"


def test_a_state_goes_on() -> None:
    made = policy()
    take(made, pod(container("a", "9Gi")))

    again = policy(state=deepcopy(made.state))
    assert again.nodes_of("u", "a") == {0, 1}
    for change, wrong in (
        (lambda state: state.machine.clear(), "machine state can not be empty when it has memory assignments"),
        (lambda state: state.given.clear(), "the expected machine state is different from the real one"),
        (lambda state: setattr(state.machine[0].memory["memory"], "total", 1), "the expected machine state is different"),
        (lambda state: state.given["u"]["a"][0].nodes.append(7), "the memory assignment uses the NUMA that does not exist"),
        (lambda state: setattr(state.given["u"]["a"][0], "type", "x"), "uses memory resource that does not exist"),
    ):
        state = deepcopy(made.state)
        change(state)
        with pytest.raises(ValueError, match=re.escape(wrong)):
            policy(state=state)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9), st.booleans()), max_size=15))
def test_nothing_is_lost_and_nothing_given_twice(steps: list[tuple[str, int, bool]]) -> None:
    made = policy(FOUR)
    for uid, size, leaves in steps:
        if leaves:
            made.release(uid)
        else:
            try:
                take(made, pod(container("m", f"{size}Gi"), uid=uid, init=(container("i", "1Gi"),)))
            except ValueError:
                made.release(uid)
        given = sum(block.size for pods in made.state.given.values() for blocks in pods.values() for block in blocks)
        assert sum(free(made)) * GI + given == 4 * 3 * GI
        assert all(each.memory["memory"].free >= 0 for each in made.state.machine.values())
        policy(FOUR, state=deepcopy(made.state))  # a successor can go on
    for uid in "abcd":
        made.release(uid)
    assert [(each.cells, each.assignments) for each in made.state.machine.values()] == [([node], 0) for node in range(4)]


@pytest.mark.parametrize(
    ("configured", "kept", "wrong"),
    [
        ([{"numaNode": 2, "limits": {"memory": "1Gi"}}], {"memory": GI}, "references a NUMA node 2 that does not exist"),
        (
            [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            {"memory": 2 * GI},
            'the total amount "1Gi" of type "memory" is not equal to the value "2Gi" determined by Node Allocatable feature',
        ),
        ([], {}, "[memorymanager] you should specify the system reserved memory"),
        ([{"numaNode": 0, "limits": {"hugepages-1Gi": "1Gi"}}], {}, 'of type "hugepages-1Gi" is not equal to the value "0"'),
    ],
)
def test_reservations_that_do_not_add_up(configured: list[dict[str, Any]], kept: dict[str, int], wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        reservations(TWO.topology(), configured, kept)


def test_reservations() -> None:
    configured = [{"numaNode": node, "limits": {"memory": "512Mi"}} for node in (0, 1)]
    assert reservations(TWO.topology(), configured, {"memory": GI}) == {0: {"memory": GI // 2}, 1: {"memory": GI // 2}}
