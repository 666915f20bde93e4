from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.meta import Object, condition_status
from controlplane.controllers.lib import node_health
from controlplane.controllers.taint_eviction import eviction_time

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def node(
    ready: str | None = "True", *, taints: list[Object] | None = None, unschedulable: bool = False, **pressures: str
) -> Object:
    kinds = {**({"Ready": ready} if ready else {}), **pressures}
    conditions = [{"type": kind, "status": status} for kind, status in kinds.items()]
    spec: dict[str, Any] = {"taints": taints or []}
    if unschedulable:
        spec["unschedulable"] = True
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(node(), [], id="well"),
        pytest.param(node("False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")], id="not-ready"),
        pytest.param(node("Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")], id="silent"),
        pytest.param(node(None), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")], id="never-spoke"),
        pytest.param(node(DiskPressure="True"), [("disk-pressure", "NoSchedule")], id="pressure"),
        pytest.param(node(unschedulable=True), [("unschedulable", "NoSchedule")], id="cordoned"),
    ],
)
def test_taints_follow_conditions(given: Object, expected: list[tuple[str, str]]) -> None:
    wanted = [(key.removeprefix("node.kubernetes.io/"), effect) for key, effect in node_health.wanted_taints(given)]
    assert wanted == expected


def test_foreign_taints_stay_and_stale_ones_go() -> None:
    foreign = {"key": "dedicated", "effect": "NoSchedule"}
    stale = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    assert node_health.next_taints(node(taints=[foreign, stale]), NOW) == [foreign]
    assert node_health.next_taints(node(taints=[foreign]), NOW) is None
    kept = node_health.next_taints(node("Unknown", taints=[stale]), NOW)
    assert kept is not None
    assert stale in kept


def test_a_silent_node_is_unknown_in_all_it_said() -> None:
    given = node("True", MemoryPressure="False")
    assert node_health.mark_unknown(given, NOW)
    assert {kind: condition_status(given, kind) for kind in ("Ready", "MemoryPressure", "PIDPressure")} == {
        "Ready": "Unknown",
        "MemoryPressure": "Unknown",
        "PIDPressure": "Unknown",
    }
    assert not node_health.mark_unknown(given, NOW)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], 0, id="not-tolerated"),
        pytest.param([{"operator": "Exists"}], None, id="tolerated"),
        pytest.param([{"operator": "Exists", "tolerationSeconds": 300}], 300, id="for-a-while"),
    ],
)
def test_eviction_counts_from_the_taint(tolerations: list[Object], expected: int | None) -> None:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T11:00:00Z"}
    moment = eviction_time(node("Unknown", taints=[taint]), {"spec": {"tolerations": tolerations}}, NOW)
    added = datetime(2026, 1, 1, 11, tzinfo=UTC)
    assert moment == (None if expected is None else added + timedelta(seconds=expected))
