from typing import Any

import pytest

from apimachinery.objects import affinity

NODE = {"metadata": {"name": "node-1", "labels": {"zone": "a", "cores": "8"}}}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "disk", "operator": "In", "values": ["ssd"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "disk", "operator": "DoesNotExist"}, True),
        ({"key": "cores", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "cores", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["4"]}, False),
    ],
)
def test_expressions(expression: dict[str, Any], expected: bool) -> None:
    assert affinity.matches_expression(expression, NODE["metadata"]["labels"]) is expected  # type: ignore[arg-type]


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"spec": {"affinity": {"nodeAffinity": wanted}}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"spec": {}}, True, id="anywhere"),
        pytest.param({"spec": {"nodeSelector": {"zone": "a"}}}, True, id="selector"),
        pytest.param({"spec": {"nodeSelector": {"zone": "b"}}}, False, id="selector-differs"),
        pytest.param(required({}), False, id="empty-term-matches-nothing"),
        pytest.param(
            required({}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}), True, id="any-term"
        ),
    ],
)
def test_required(pod: dict[str, Any], expected: bool) -> None:
    assert affinity.accepts_node(pod, NODE) is expected


def test_preferred_weights_add_up() -> None:
    terms = [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
        {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}},
        {"weight": 9, "preference": {}},
    ]
    pod = {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}}
    assert affinity.preferred_weight(pod, NODE) == 5
