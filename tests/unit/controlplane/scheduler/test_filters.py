from typing import Any

import pytest

from apimachinery.meta import Object
from tests.support.scheduling import Bench, make_node, make_pod

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "pod", "reason"),
    [
        pytest.param(make_node("n"), make_pod(cpu="5"), "Insufficient cpu", id="cpu"),
        pytest.param(make_node("n"), make_pod(memory="17Gi"), "Insufficient memory", id="memory"),
        pytest.param(make_node("n", pods="0"), make_pod(), "Too many pods", id="pods"),
        pytest.param(make_node("n", unschedulable=True), make_pod(), "node(s) were unschedulable", id="cordoned"),
        pytest.param(make_node("n", taints=[TAINT]), make_pod(), "node(s) had untolerated taint(s)", id="taint"),
        pytest.param(
            make_node("n"),
            make_pod(nodeSelector={"disk": "ssd"}),
            "node(s) didn't match Pod's node affinity/selector",
            id="selector",
        ),
    ],
)
def test_refusals(node: Object, pod: Object, reason: str) -> None:
    assert Bench(node).refusal(pod) == f"0/1 nodes are available: 1 {reason}."


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param(make_node("n"), make_pod(cpu="4", memory="16Gi"), id="exactly-all"),
        pytest.param(make_node("n", taints=[TAINT]), make_pod(tolerations=[{"key": "k", "operator": "Exists"}]), id="tolerated"),
        pytest.param(make_node("n", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), make_pod(), id="only-preferred"),
        pytest.param(
            make_node("n", unschedulable=True),
            make_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            id="cordoned-but-tolerated",
        ),
        pytest.param(make_node("n", labels={"disk": "ssd"}), make_pod(nodeSelector={"disk": "ssd"}), id="selected"),
    ],
)
def test_fits(node: Object, pod: Object) -> None:
    assert Bench(node).fits(pod) == {"n"}


def test_the_sentence_counts_reasons_over_nodes() -> None:
    small, full = make_node("a", cpu="1"), make_node("b", cpu="1", pods="0")
    bench = Bench(small, full, make_node("c", taints=[TAINT]), make_node("d", unschedulable=True))
    assert bench.refusal(make_pod(cpu="2")) == (
        "0/4 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert Bench().refusal(make_pod()) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
    ],
)
def test_host_ports(held: dict[str, Any], wanted: dict[str, Any], fits: bool) -> None:
    bench = Bench(make_node("n"), running=(make_pod(node="n", ports=[held]),))
    assert (bench.fits(make_pod(ports=[wanted])) == {"n"}) is fits


def test_assumed_pods_count_and_forgotten_ones_do_not() -> None:
    bench = Bench(make_node("n", cpu="1"))
    first = make_pod(cpu="1")
    assert bench.place(first) == "n"
    assert bench.place(make_pod(cpu="1")) == ""
    bench.cache.forget(first["metadata"]["uid"])
    assert bench.place(make_pod(cpu="1")) == "n"


def test_a_pod_that_names_its_nodes_looks_at_no_others() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    bench = Bench(make_node("a"), make_node("b", cpu="1"))
    assert bench.place(make_pod(affinity=affinity, cpu="1")) == "b"
    assert "1 Insufficient cpu" in bench.refusal(make_pod(affinity=affinity, cpu="1"))
