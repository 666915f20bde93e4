"""Who is let in under which policy, what is allocated then, and that a refused pod holds nothing."""

from copy import deepcopy
from typing import Any

import pytest

from component.metrics import Registry
from node.kubelet.cm.interface import AdmissionError, Hints, TopologyHint
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.cm.topology_manager.manager import MESSAGE, REASON, TopologyManager
from node.kubelet.cm.topology_manager.options import Options, parse

POD = {"metadata": {"uid": "u"}, "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "a"}, {"name": "b"}]}}


class Provider:
    """Has one unit of something on each of its nodes; every container wants one of them, all on one node."""

    def __init__(self, *nodes: int, preferred: bool = True, failing: dict[str, Exception] | None = None) -> None:
        self.nodes, self.preferred, self.failing = nodes, preferred, failing or {}
        self.given: list[str] = []

    def topology_hints(self, pod: Any, container: Any) -> Hints:
        return {"thing": [TopologyHint(frozenset({node}), self.preferred) for node in self.nodes]}

    def pod_topology_hints(self, pod: Any) -> Hints:
        return self.topology_hints(pod, None)

    async def allocate(self, pod: Any, container: Any) -> None:
        if error := self.failing.get(container["name"]):
            raise error
        self.given.append(container["name"])

    def forget(self, uid: str) -> None:
        self.given.clear()


def manager(policy: str, scope: str = "container", *providers: Provider) -> tuple[TopologyManager, Registry]:
    registry = Registry(process=False)
    made = TopologyManager(policy, scope, Options(), [0, 1], {}, ResourceMetrics(registry))
    for each in providers:
        made.add(each)
    return made, registry


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("policy", "first", "second", "admitted"),
    [
        ("none", Provider(0), Provider(1), True),
        ("best-effort", Provider(0), Provider(1), True),
        ("restricted", Provider(0), Provider(1), False),
        ("restricted", Provider(0, 1), Provider(1), True),
        ("restricted", Provider(0, preferred=False), Provider(0), False),
        ("single-numa-node", Provider(0, 1), Provider(1), True),
        ("single-numa-node", Provider(), Provider(1), False),
    ],
)
async def test_who_is_let_in(policy: str, scope: str, first: Provider, second: Provider, admitted: bool) -> None:
    first, second = deepcopy(first), deepcopy(second)
    made, _ = manager(policy, scope, first, second)

    assert await made.admit(POD) == (None if admitted else (REASON, MESSAGE))
    assert first.given == second.given == (["init", "a", "b"] if admitted else [])


async def test_providers_learn_where_to_allocate() -> None:
    made, _ = manager("restricted", "container", Provider(0, 1), Provider(1))
    await made.admit(POD)

    assert made.affinity("u", "a") == TopologyHint(frozenset({1}), True)
    made.forget("u")
    assert made.affinity("u", "a") == TopologyHint(None, False)


@pytest.mark.parametrize("policy", ["none", "single-numa-node"])
@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (
            AdmissionError("SMTAlignmentError", "SMT Alignment Error: odd"),
            ("SMTAlignmentError", "SMT Alignment Error: odd"),
        ),
        (
            ValueError("not enough cpus available to satisfy request: requested=3, available=1"),
            (
                "UnexpectedAdmissionError",
                "Allocate failed due to not enough cpus available to satisfy request: requested=3, available=1, "
                "which is unexpected",
            ),
        ),
    ],
)
async def test_a_provider_that_cannot_allocate(policy: str, error: Exception, refusal: tuple[str, str]) -> None:
    first, second = Provider(0), Provider(0, failing={"b": error})
    made, registry = manager(policy, "container", first, second)

    assert await made.admit(POD) == refusal
    assert first.given == second.given == [], "what the pod was given before is given back"
    shown = registry.expose().decode()
    assert "kubelet_topology_manager_admission_requests_total 1.0" in shown
    assert "kubelet_topology_manager_admission_errors_total 1.0" in shown


async def test_alignment_is_counted_where_it_is_guaranteed() -> None:
    made, registry = manager("single-numa-node", "pod", Provider(0))
    await made.admit(POD)

    shown = registry.expose().decode()
    assert 'kubelet_container_aligned_compute_resources_count{boundary="numa_node",scope="pod"} 1.0' in shown


def test_machines_with_too_many_nodes() -> None:
    metrics = ResourceMetrics(Registry(process=False))
    with pytest.raises(ValueError, match="unsupported on machines with more than 8 NUMA Nodes"):
        TopologyManager("restricted", "pod", Options(), range(9), {}, metrics)
    TopologyManager("none", "pod", Options(), range(9), {}, metrics)
    TopologyManager("restricted", "pod", parse({"max-allowable-numa-nodes": "9"}), range(9), {}, metrics)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"closest": "true"}, 'unknown Topology Manager Policy option: "closest"'),
        ({"prefer-closest-numa-nodes": "yes"}, 'bad value for option "prefer-closest-numa-nodes"'),
        ({"max-allowable-numa-nodes": "many"}, 'bad value for option "max-allowable-numa-nodes"'),
    ],
)
def test_bad_options(given: dict[str, str], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse(given)
