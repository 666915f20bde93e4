"""Rules in the shape of RBAC's PolicyRule, and how a request is held against them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from controlplane.apiserver.authorization.interface import Attributes

ALL = ("*",)


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows ``verbs`` on resources (``pods``, ``pods/status``, ``*/scale``, ``*``) or on non-resource ``paths``."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()  # empty: all, and the cluster scope

    def allows(self, asked: Attributes) -> bool:
        if "*" not in self.verbs and asked.verb not in self.verbs:
            return False
        if not asked.is_resource:
            return any(_path_matches(path, asked.path) for path in self.paths)
        return (
            ("*" in self.groups or asked.api_group in self.groups)
            and self._covers_resource(asked)
            and (not self.names or asked.name in self.names)
            and (not self.namespaces or asked.namespace in self.namespaces)
        )

    def _covers_resource(self, asked: Attributes) -> bool:
        combined = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        for resource in self.resources:
            if resource in ("*", combined) or (asked.subresource and resource == f"*/{asked.subresource}"):
                return True
        return False


def rule(verbs: str, groups: str, resources: str, *names: str) -> Rule:
    """A rule in one line: words separated by blanks; ``core`` is the group without a name."""
    return Rule(
        tuple(verbs.split()), tuple("" if each == "core" else each for each in groups.split()), tuple(resources.split()), names
    )


def path_rule(verbs: str, paths: str) -> Rule:
    return Rule(tuple(verbs.split()), paths=tuple(paths.split()))


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def allowed_by(rules: Iterable[Rule], asked: Attributes) -> bool:
    return any(rule.allows(asked) for rule in rules)


def rule_value(rule: Rule) -> dict[str, Any]:
    """A rule as the API writes it."""
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    value: dict[str, Any] = {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
    if rule.names:
        value["resourceNames"] = list(rule.names)
    return value
