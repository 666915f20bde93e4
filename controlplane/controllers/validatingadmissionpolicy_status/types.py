"""Which types a policy's expressions are about. Pure. Upstream: ``TypeChecker.typesToCheck``."""

from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource

MAX_TYPES = 10
"""Of one rule; the rules after one that has so many do not count."""


def types_to_check(spec: Mapping[str, Any]) -> list[list[GroupVersionResource]]:
    """The resources of each rule, in the order in which they are looked up; a rule with a wildcard is about no type."""
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    return [list(_resources(rule)) for rule in rules]


def _resources(rule: Mapping[str, Any]) -> Iterator[GroupVersionResource]:
    groups, versions = sorted(rule.get("apiGroups") or ()), sorted(rule.get("apiVersions") or ())
    if any("*" in each for each in (*groups, *versions)):
        return
    resources = sorted(each for each in rule.get("resources") or () if "*" not in each and "/" not in each)
    for group in groups:
        for version in versions:
            for resource in resources:
                yield GroupVersionResource(group, version, resource)


def param_kind(spec: Mapping[str, Any]) -> GroupVersionKind | None:
    kind = spec.get("paramKind")
    if not kind:
        return None
    group, _, version = str(kind["apiVersion"]).rpartition("/")
    return GroupVersionKind(*GroupVersion(group, version), kind["kind"])
