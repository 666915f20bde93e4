"""The static policy: who owns what, what is kept free, what is hinted, and which state cannot be gone on with."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from component import features
from node.kubelet.cm import cpuset
from node.kubelet.cm.cpu_manager import options as opts
from node.kubelet.cm.cpu_manager.options import Options
from node.kubelet.cm.cpu_manager.policy import StateError, StaticPolicy
from node.kubelet.cm.cpu_manager.state import State
from node.kubelet.cm.interface import AdmissionError, TopologyHint
from tests.support.numa import DESKTOP, SMALL_NUMA, Shape

FOUR_NODES = Shape(sockets=2, nodes_per_socket=2, cores_per_node=4)


class Anywhere:
    """A topology manager that has decided this."""

    def __init__(self, *nodes: int) -> None:
        self.hint = TopologyHint(frozenset(nodes) or None, True)

    def affinity(self, uid: str, container: str) -> TopologyHint:
        return self.hint


def policy(
    shape: Shape = DESKTOP, reserved: str = "0", shared: str = "", affinity: Anywhere | None = None, **options: bool
) -> StaticPolicy:
    kept = cpuset.parse(reserved)
    state = State("static", cpuset.parse(shared))
    made = StaticPolicy(shape.topology(), Options(**options), affinity or Anywhere(), state, len(kept), kept)
    made.start()
    return made


def container(name: str, cpu: str = "", **more: Any) -> dict[str, Any]:
    listed = {"cpu": cpu, "memory": "1Gi"} if cpu else {"memory": "1Gi"}
    return {"name": name, "resources": {"requests": listed, "limits": listed}, **more}


def pod(*containers: dict[str, Any], uid: str = "u", init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"initContainers": list(init), "containers": list(containers), **spec}}


def take(made: StaticPolicy, wanted: dict[str, Any]) -> dict[str, str]:
    for each in (*wanted["spec"]["initContainers"], *wanted["spec"]["containers"]):
        made.allocate(wanted, each)
    return {name: cpuset.show(cpus) for name, cpus in made.state.owned.get(wanted["metadata"]["uid"], {}).items()}


def test_who_owns_cpus_and_who_does_not() -> None:
    made = policy()
    burstable = pod(container("a", "2"), uid="b")
    burstable["spec"]["containers"][0]["resources"]["limits"] = {}

    assert take(made, pod(container("whole", "2"), container("part", "1500m"), container("half", "500m"))) == {"whole": "1,5"}
    assert take(made, burstable) == {}
    assert take(made, pod(container("a", "2"), uid="p", resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})) == {}
    assert cpuset.show(made.state.shared) == "0,2-4,6-7"


def test_reserved_cpus_are_the_first_cores_or_those_that_are_named() -> None:
    topology = DESKTOP.topology()

    assert StaticPolicy(topology, Options(), Anywhere(), State("static"), 2).reserved == {0, 4}
    assert StaticPolicy(topology, Options(), Anywhere(), State("static"), 2, frozenset({2, 3})).reserved == {2, 3}
    with pytest.raises(ValueError, match="unable to reserve the required amount of CPUs"):
        StaticPolicy(topology, Options(), Anywhere(), State("static"), 9)


def test_nobody_gets_the_reserved_ones() -> None:
    made = policy()

    assert take(made, pod(container("most", "7"))) == {"most": "1-7"}
    assert made.state.shared == {0}
    with pytest.raises(ValueError, match="requested=1, available=0"):
        take(made, pod(container("more", "1"), uid="v"))


def test_strictly_reserved_ones_are_not_shared_either() -> None:
    made = policy(reserved="0,4", strict=True)

    assert made.state.shared == cpuset.parse("1-3,5-7")


def test_init_containers_hand_their_cpus_on_and_sidecars_do_not() -> None:
    init = (container("first", "4"), container("side", "1", restartPolicy="Always"), container("second", "2"))
    made = policy()

    owned = take(made, pod(container("main", "4"), init=init))

    assert owned["first"] == "1-2,5-6"
    assert owned["side"] == "4", "the core that is shared with the reserved CPU is broken already"
    assert cpuset.parse(owned["second"]) < cpuset.parse(owned["main"]) == cpuset.parse(owned["first"])


def test_what_was_given_is_found_again() -> None:
    made = policy()
    wanted = pod(container("a", "2"))
    before = take(made, wanted)

    assert take(made, wanted) == before
    assert made.release("u")
    assert not made.release("u")
    assert made.state.shared == made.topology.all


def test_full_cores_only() -> None:
    made = policy(reserved="0", full_cores=True)

    with pytest.raises(AdmissionError, match="SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2") as raised:
        take(made, pod(container("a", "3")))
    assert raised.value.reason == "SMTAlignmentError"
    short = "not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"
    with pytest.raises(AdmissionError, match=short):
        take(made, pod(container("a", "8")))
    assert take(made, pod(container("a", "6"))) == {"a": "1-3,5-7"}


def test_where_the_topology_manager_says() -> None:
    assert take(policy(SMALL_NUMA, affinity=Anywhere(1)), pod(container("a", "2"))) == {"a": "3,9"}
    assert take(policy(SMALL_NUMA, affinity=Anywhere(1)), pod(container("a", "8"))) == {"a": "1,3-5,7,9-11"}
    assert take(policy(FOUR_NODES, affinity=Anywhere(2), by_socket=True), pod(container("a", "6"))) == {"a": "8-13"}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("2", {(0,): True, (1,): True, (0, 1): False}),
        ("6", {(1,): True, (0, 1): False}),
        ("8", {(0, 1): True}),
        ("12", {}),
    ],
)
def test_hints(count: str, expected: dict[tuple[int, ...], bool]) -> None:
    made = policy(SMALL_NUMA)
    asked = pod(container("a", count))

    for found in (made.hints(asked, asked["spec"]["containers"][0]), made.pod_hints(asked)):
        hints = found["cpu"]
        assert hints is not None
        assert {tuple(sorted(each.affinity or ())): each.preferred for each in hints} == expected


def test_a_socket_is_as_good_as_a_node_if_so_wished() -> None:
    asked = pod(container("a", "4"))
    hints = policy(FOUR_NODES, by_socket=True).hints(asked, asked["spec"]["containers"][0])["cpu"]

    assert hints is not None
    assert {each.affinity for each in hints if each.preferred} >= {frozenset({0, 1}), frozenset({2, 3}), frozenset({3})}
    assert frozenset({1, 2}) not in {each.affinity for each in hints if each.preferred}


def test_hints_for_what_was_given_already_are_where_it_is() -> None:
    made = policy(SMALL_NUMA, affinity=Anywhere(1))
    asked = pod(container("a", "2"))
    take(made, asked)

    hints = made.hints(asked, asked["spec"]["containers"][0])["cpu"]
    assert hints is not None
    assert hints[0] == TopologyHint(frozenset({1}), True)
    assert made.pod_hints(asked)["cpu"] == hints
    grown = pod(container("a", "4"))
    assert made.hints(grown, grown["spec"]["containers"][0]) == {"cpu": []}
    assert made.pod_hints(grown) == {"cpu": []}


def test_who_owns_nothing_does_not_mind() -> None:
    asked = pod(container("a", "500m"))

    assert policy().hints(asked, asked["spec"]["containers"][0]) == {}
    assert policy().pod_hints(asked) == {}


@pytest.mark.parametrize(
    ("shared", "owned", "options", "wrong"),
    [
        ("", {"u": {"a": "1"}}, {}, "default cpuset cannot be empty"),
        ("1-7", {}, {}, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"'),
        ("0-7", {}, {"strict": True}, 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"'),
        ("0-7", {"u": {"a": "1-2"}}, {}, 'pod: u, container: a cpuset: "1-2" overlaps with default cpuset "0-7"'),
        ("0-3", {"u": {"a": "4"}}, {}, 'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-4"'),
    ],
)
def test_a_state_that_does_not_go_with_the_machine(
    shared: str, owned: dict[str, dict[str, str]], options: dict[str, bool], wrong: str
) -> None:
    state = State("static", cpuset.parse(shared), {u: {c: cpuset.parse(s) for c, s in p.items()} for u, p in owned.items()})
    made = StaticPolicy(DESKTOP.topology(), Options(**options), Anywhere(), state, 1, frozenset({0}))

    with pytest.raises(StateError, match=re.escape(wrong)):
        made.start()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["1", "2", "3", "500m"]), st.booleans()), max_size=20))
def test_no_cpu_is_ever_owned_twice_or_lost(steps: list[tuple[str, str, bool]]) -> None:
    made = policy(SMALL_NUMA)
    for uid, cpu, leaves in steps:
        if leaves:
            made.release(uid)
        else:
            try:
                take(made, pod(container("m", cpu), uid=uid, init=(container("i", "2"),)))
            except ValueError:
                made.release(uid)
        owned = [frozenset().union(*each.values()) for each in made.state.owned.values()]
        assert sum(map(len, owned)) == len(made.state.exclusive())
        assert made.state.shared | made.state.exclusive() == made.topology.all
        assert not made.state.shared & made.state.exclusive()
        assert made.reserved <= made.state.shared


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"faster": "true"}, 'unknown CPU Manager Policy option: "faster"'),
        ({"full-pcpus-only": "yes"}, 'bad value for option "full-pcpus-only"'),
        (
            {"align-by-socket": "true"},
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            {"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"},
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
        (
            {"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"},
            "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same",
        ),
    ],
)
def test_options_that_are_refused(given: dict[str, str], wrong: str) -> None:
    alpha = {"CPUManagerPolicyAlphaOptions": "true"} if "distribute-cpus-across-cores" in given else {}
    with pytest.raises(ValueError, match=wrong):
        opts.parse(given, features.from_flag(alpha))


def test_beta_options_can_be_hidden() -> None:
    with pytest.raises(ValueError, match="Beta-level Options not enabled"):
        opts.parse({"distribute-cpus-across-numa": "true"}, features.from_flag({"CPUManagerPolicyBetaOptions": "false"}))
    assert opts.parse({"strict-cpu-reservation": "true", "full-pcpus-only": "0"}, features.DEFAULTS) == Options(strict=True)


def test_options_that_do_not_go_with_the_machine() -> None:
    with pytest.raises(ValueError, match="single-numa-node policy is incompatible with CPUManager align-by-socket"):
        opts.fits(Options(by_socket=True), FOUR_NODES.topology(), "single-numa-node")
    opts.fits(Options(by_socket=True), FOUR_NODES.topology(), "restricted")
