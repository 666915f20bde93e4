from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.scheduler.cycle import Refusal
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.plugins.default_preemption import Preemption
from tests.support.scheduling import Bench, make_node, make_pod


def running(name: str, node: str, cpu: str, priority: int = 0, started: str = "2026-01-01T00:00:00Z", **more: Any) -> Object:
    pod = make_pod(name, node=node, cpu=cpu, priority=priority, **more)
    pod["status"] = {"phase": "Running", "startTime": started}
    return pod


def preempt(bench: Bench, pod: Object) -> tuple[str, list[str]] | str:
    info = PodInfo(pod)
    refusal = bench.cycle.decide(info)
    assert isinstance(refusal, Refusal)
    outcome = bench.cycle.preempt(info, refusal)
    if isinstance(outcome, Preemption):
        return outcome.node, sorted(victim.name for victim in outcome.victims)
    return outcome


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([running("a", "n", "3"), running("b", "n", "1")], ["a"], id="only-as-many-as-needed"),
        pytest.param([running("a", "n", "2", 5), running("b", "n", "2", 1)], ["b"], id="least-important-first"),
        pytest.param(
            [running("old", "n", "2"), running("young", "n", "2", started="2026-01-02T00:00:00Z")], ["young"], id="youngest-first"
        ),
        pytest.param(
            [running("a", "n", "1"), running("b", "n", "1"), running("c", "n", "2", 50)], ["a", "b"], id="only-lower-ones"
        ),
    ],
)
def test_victims(pods: list[Object], expected: list[str]) -> None:
    bench = Bench(make_node("n"), running=tuple(pods))
    assert preempt(bench, make_pod(cpu="2", priority=10)) == ("n", expected)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param([running("a", "first", "4", 1)], [running("b", "second", "4", 5)], id="lowest-highest-priority"),
        pytest.param(
            [running("a", "first", "4", 1)],
            [running("b", "second", "2", 1), running("c", "second", "2", 1)],
            id="fewest-and-cheapest",
        ),
        pytest.param(
            [running("a", "first", "4", started="2026-01-02T00:00:00Z")], [running("b", "second", "4")], id="latest-started"
        ),
    ],
)
def test_the_node_that_loses_least(first: list[Object], second: list[Object]) -> None:
    bench = Bench(make_node("second"), make_node("first"), running=(*second, *first))
    outcome = preempt(bench, make_pod(cpu="4", priority=10))
    assert outcome[0] == "first"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            make_pod(cpu="2"), "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", id="nobody"
        ),
        pytest.param(
            make_pod(cpu="9", priority=10),
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="larger-than-the-node",
        ),
        pytest.param(
            make_pod(cpu="2", priority=10, preemptionPolicy="Never"),
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="never",
        ),
    ],
)
def test_why_nothing_helps(pod: Object, expected: str) -> None:
    assert preempt(Bench(make_node("n"), running=(running("a", "n", "4"),)), pod) == expected


def test_anti_affinity_can_be_preempted_away() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    bench = Bench(make_node("n"), running=(running("a", "n", "1", labels={"app": "web"}), running("b", "n", "1")))
    assert preempt(bench, make_pod(affinity=apart, priority=10)) == ("n", ["a"])


def test_promised_room_is_kept_from_the_less_important() -> None:
    bench = Bench(make_node("n"))
    important = PodInfo(make_pod(cpu="4", priority=10))
    bench.cache.nominate(important, "n")
    assert "1 Insufficient cpu" in bench.refusal(make_pod(cpu="1"))
    assert bench.place(make_pod(cpu="1", priority=20)) == "n"
    bench.cache.unnominate(important.uid)
    assert bench.place(make_pod(cpu="1")) == "n"
