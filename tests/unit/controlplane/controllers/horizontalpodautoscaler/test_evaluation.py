from typing import Any

import pytest

from controlplane.controllers.horizontalpodautoscaler.evaluation import shown_selector


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        (None, "nil"),
        ({}, "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"),
        (
            {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]},
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
            "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}",
        ),
    ],
)
def test_selectors_as_go_prints_them(selector: dict[str, Any] | None, shown: str) -> None:
    assert shown_selector(selector) == shown
