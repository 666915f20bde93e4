from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.controllers import disruption

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, *, ready: bool = True, owner: str = "rs", **meta: Any) -> Object:
    references = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name, "ownerReferences": references, **meta}, "status": {"conditions": conditions}}


def budget(status: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "b", "generation": 1}, "spec": {"selector": {}, **spec}, "status": status or {}}


@pytest.mark.parametrize(
    ("of", "pods", "expected"),
    [
        pytest.param(budget(minAvailable=2), [pod("a"), pod("b"), pod("c")], (1, 3, 2, 3), id="number"),
        pytest.param(budget(minAvailable="50%"), [pod("a"), pod("b")], (0, 2, 2, 4), id="part-of-the-scale"),
        pytest.param(budget(maxUnavailable=1), [pod("a"), pod("b"), pod("c"), pod("d")], (1, 4, 3, 4), id="max-unavailable"),
        pytest.param(budget(maxUnavailable="25%"), [pod("a"), pod("b"), pod("c")], (0, 3, 3, 4), id="one-is-missing-already"),
        pytest.param(budget(minAvailable=1), [pod("a", ready=False)], (0, 0, 1, 1), id="not-ready"),
        pytest.param(budget(minAvailable=0), [], (0, 0, 0, 0), id="no-pods"),
        pytest.param(budget(maxUnavailable=1), [pod("a", owner="")], (0, 1, 0, 0), id="pods-of-nobody"),
        pytest.param(
            budget({"disruptedPods": {"a": "2026-01-01T11:59:30Z", "gone": "2026-01-01T11:59:30Z"}}, minAvailable=1),
            [pod("a"), pod("b"), pod("c")],
            (1, 2, 1, 3),
            id="evicted-but-still-there",
        ),
        pytest.param(
            budget({"disruptedPods": {"a": "2026-01-01T11:00:00Z"}}, minAvailable=1),
            [pod("a"), pod("b")],
            (1, 2, 1, 2),
            id="lapsed",
        ),
    ],
)
def test_counts(of: Object, pods: list[Object], expected: tuple[int, int, int, int]) -> None:
    made = disruption.next_status(of, pods, lambda pod: 4, NOW)
    assert tuple(made[each] for each in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")) == expected
    assert made["conditions"][0]["status"] == str(expected[0] > 0)


@pytest.mark.parametrize(("selector", "expected"), [(None, False), ({}, True), ({"matchLabels": {"a": "b"}}, False)])
def test_selectors(selector: Object | None, expected: bool) -> None:
    assert disruption.selects({"spec": {"selector": selector}}, pod("x")) is expected
