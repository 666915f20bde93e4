from typing import Any

import pytest

from apimachinery.meta import Object
from tests.support.scheduling import Bench, make_node, make_pod

HOST = "kubernetes.io/hostname"


def term(app: str, topology: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology, **more}


def near(*terms: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return near(*terms, kind="podAntiAffinity")


def zones(*running: Object) -> Bench:
    """a and b in zone 1, c in zone 2."""
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    return Bench(*nodes, running=running)


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(near(term("db")), {"a", "b"}, id="near-in-zone"),
        pytest.param(near(term("db", HOST)), {"a"}, id="near-on-node"),
        pytest.param(near(term("db"), term("cache")), set(), id="all-terms"),
        pytest.param(near(term("web")), {"a", "b", "c"}, id="the-first-of-its-kind"),
        pytest.param(near(term("nobody")), set(), id="nobody-to-be-near"),
        pytest.param(near(term("db", "rack")), set(), id="nodes-lack-the-key"),
        pytest.param(apart(term("db")), {"c"}, id="apart-in-zone"),
        pytest.param(apart(term("db", HOST)), {"b", "c"}, id="apart-on-node"),
        pytest.param(apart(term("db", namespaces=["other"])), {"a", "b", "c"}, id="other-namespace"),
    ],
)
def test_required_terms(affinity: dict[str, Any], expected: set[str]) -> None:
    bench = zones(make_pod(node="a", labels={"app": "db"}))
    assert bench.fits(make_pod(labels={"app": "web"}, affinity=affinity)) == expected


def test_running_pods_keep_others_away() -> None:
    bench = zones(make_pod(node="a", labels={"app": "db"}, affinity=apart(term("web"))))
    web = make_pod(labels={"app": "web"})
    assert bench.fits(web) == {"c"}
    assert bench.fits(make_pod(labels={"app": "other"})) == {"a", "b", "c"}
    assert bench.fits(make_pod(labels={"app": "web"}, namespace="other")) == {"a", "b", "c"}


def test_one_replica_per_node() -> None:
    bench = zones()
    kind: dict[str, Any] = {"labels": {"app": "web"}, "affinity": apart(term("web", HOST))}
    assert {bench.place(make_pod(**kind)) for _ in range(3)} == {"a", "b", "c"}
    assert bench.refusal(make_pod(**kind)) == "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."


def test_namespaces_by_label() -> None:
    bench = zones(make_pod(node="a", namespace="team", labels={"app": "db"}))
    bench.cache.set_namespace({"metadata": {"name": "team", "labels": {"tier": "x"}}})
    chosen = term("db", namespaceSelector={"matchLabels": {"tier": "x"}})
    assert bench.fits(make_pod(affinity=near(chosen))) == {"a", "b"}


def test_preferred_terms_score() -> None:
    def preferred(kind: str) -> dict[str, Any]:
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term("db")}]}}

    bench = zones(make_pod(node="c", cpu="1", labels={"app": "db"}))
    assert bench.place(make_pod(affinity=preferred("podAffinity"))) == "c"
    assert bench.place(make_pod(affinity=preferred("podAntiAffinity"))) in ("a", "b")


def spread(max_skew: int = 1, action: str = "DoNotSchedule", key: str = "zone", **more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector, **more}]


def test_spread_over_zones() -> None:
    bench = zones(make_pod(node="a", labels={"app": "web"}))
    pod = make_pod(labels={"app": "web"}, topologySpreadConstraints=spread())
    assert bench.fits(pod) == {"c"}
    assert bench.fits(make_pod(labels={"app": "web"}, topologySpreadConstraints=spread(2))) == {"a", "b", "c"}


def test_spread_needs_the_label_and_counts_eligible_nodes_only() -> None:
    bench = Bench(make_node("a", labels={"zone": "1"}), make_node("b", labels={"zone": "2", "no": "x"}), make_node("c"))
    for _ in range(2):
        bench.cache.set_pod(make_pod(node="a", labels={"app": "web"}))
    pod: dict[str, Any] = {"labels": {"app": "web"}, "topologySpreadConstraints": spread()}
    assert bench.fits(make_pod(**pod)) == {"b"}
    lacks = [{"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}]
    pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": lacks}}}
    assert bench.fits(make_pod(**pod)) == {"a"}


def test_too_few_domains_count_as_empty_ones() -> None:
    bench = zones(make_pod(node="a", labels={"app": "web"}), make_pod(node="c", labels={"app": "web"}))
    assert bench.fits(make_pod(labels={"app": "web"}, topologySpreadConstraints=spread())) == {"a", "b", "c"}
    assert bench.fits(make_pod(labels={"app": "web"}, topologySpreadConstraints=spread(minDomains=3))) == set()


def test_spread_if_possible_scores() -> None:
    bench = zones(*(make_pod(node="a", labels={"app": "web"}) for _ in range(3)), make_pod(node="c", cpu="1"))
    assert bench.place(make_pod(labels={"app": "web"}, topologySpreadConstraints=spread(action="ScheduleAnyway"))) == "c"
