from typing import Any

from controlplane.scheduler.cycle import Decision, nodes_to_find
from tests.support.scheduling import Bench, make_node, make_pod


def test_the_emptier_node_wins() -> None:
    bench = Bench(make_node("full"), make_node("free"), running=(make_pod(node="full", cpu="2", memory="4Gi"),))
    assert bench.place(make_pod(cpu="1", memory="1Gi")) == "free"


def test_equal_nodes_share_equal_pods() -> None:
    bench = Bench(*(make_node(name) for name in "abc"))
    placed = [bench.place(make_pod(cpu="100m")) for _ in range(12)]
    assert sorted(placed) == ["a"] * 4 + ["b"] * 4 + ["c"] * 4


def test_preferred_taints_are_avoided() -> None:
    tainted = make_node("tainted", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    bench = Bench(tainted, make_node("plain"), running=(make_pod(node="plain", cpu="1"),))
    assert bench.place(make_pod()) == "plain"
    assert bench.place(make_pod(tolerations=[{"key": "k", "operator": "Exists"}])) == "tainted"


def test_preferred_node_affinity() -> None:
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = [{"weight": 1, "preference": preference}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    bench = Bench(make_node("a"), make_node("b", labels={"disk": "ssd"}), running=(make_pod(node="b", cpu="2"),))
    assert bench.place(make_pod(affinity=affinity)) == "b"


def test_images_that_are_there_already() -> None:
    bench = Bench(*(make_node(name) for name in "abc"), make_node("d", images={"big:latest": 4 * 10**9}))
    assert bench.place(make_pod(image="big")) == "d"


def test_why_names_the_scores() -> None:
    outcome = Bench(make_node("n")).decide(make_pod(cpu="1", memory="1Gi"))
    assert isinstance(outcome, Decision)
    assert outcome.why() == (
        "1 of 1 nodes fit; score 174: NodeResourcesFit 84, NodeResourcesBalancedAllocation 90, ImageLocality 0"
    )


def test_kept_rankings_follow_the_cluster() -> None:
    """One kind of pod, while nodes fill up, come, change and go."""
    bench = Bench(make_node("a", cpu="1"))
    kind: dict[str, Any] = {"cpu": "600m"}
    assert bench.place(make_pod(**kind)) == "a"
    assert bench.place(make_pod(**kind)) == ""
    bench.cache.set_node(make_node("b", cpu="1"))
    assert bench.place(make_pod(**kind)) == "b"
    bench.cache.set_node(make_node("a", cpu="2"))
    assert bench.place(make_pod(**kind)) == "a"
    bench.cache.set_node(make_node("a", cpu="4", unschedulable=True))
    assert bench.place(make_pod(**kind)) == ""
    bench.cache.remove_node("b")
    bench.cache.set_node(make_node("a", cpu="4"))
    assert bench.place(make_pod(**kind)) == "a"


def test_the_first_pod_of_a_kind_may_change_later() -> None:
    """What is kept for a kind does not follow the pod it was made from."""
    bench = Bench(make_node("a"), make_node("b"))
    first = make_pod()
    where = bench.place(first)
    bound = {**first, "spec": {**first["spec"], "nodeName": where}}
    bench.cache.set_pod(bound)
    assert {bench.place(make_pod()), where} == {"a", "b"}


def test_large_clusters_are_sampled() -> None:
    assert [nodes_to_find(total) for total in (50, 100, 1000, 10_000)] == [50, 100, 420, 500]
    assert nodes_to_find(1000, 30) == 300
