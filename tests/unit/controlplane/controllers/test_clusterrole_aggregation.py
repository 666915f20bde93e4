"""The rules of an aggregated role: those of the roles that its selectors choose, and no others."""

from typing import Any

from controlplane.controllers.clusterrole_aggregation import aggregated_rules

Object = dict[str, Any]


def role(name: str, *verbs: str, labels: dict[str, str] | None = None, selects: dict[str, str] | None = None) -> Object:
    made: Object = {"metadata": {"name": name, "labels": labels or {}}}
    made["rules"] = [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]} for verb in verbs]
    if selects is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selects}]}
    return made


def verbs(rules: list[Object]) -> list[str]:
    return [rule["verbs"][0] for rule in rules]


def test_chosen_roles_in_the_order_of_names_each_rule_once() -> None:
    mark = {"for": "all"}
    whole = role("whole", "stale", labels=mark, selects=mark)
    others = [role("b", "list", "get", labels=mark), role("a", "get", "watch", labels=mark), role("c", "delete")]
    assert verbs(aggregated_rules(whole, [whole, *others])) == ["get", "watch", "list"]


def test_nothing_chosen_is_nothing_granted() -> None:
    whole = role("whole", selects={"for": "none"})
    assert aggregated_rules(whole, [role("a", "get")]) == []
