"""ABAC: policies from a file, one JSON object a line; read again when the file changes. Never denies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import ALL, Rule

_VERSION = "abac.authorization.kubernetes.io/v1beta1"
_READING = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Policy:
    """``*`` matches anything; an empty resource or path matches nothing of its kind."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""

    def is_for(self, user: UserInfo) -> bool:
        if not self.user and not self.group:
            return False
        if self.user not in ("", "*", user.name):
            return False
        return self.group in ("", "*") or self.group in user.groups

    def allows(self, asked: Attributes) -> bool:
        if self.readonly and asked.verb not in _READING:
            return False
        if not asked.is_resource:
            return self.path in ("*", asked.path) or (self.path.endswith("*") and asked.path.startswith(self.path[:-1]))
        return (
            self.namespace in ("*", asked.namespace)
            and self.resource in ("*", asked.resource)
            and self.api_group in ("*", asked.api_group)
        )

    def rules(self, namespace: str) -> list[Rule]:
        verbs = _READING if self.readonly else ALL
        found = [Rule(verbs, (self.api_group,), (self.resource,))] if self.resource and self.namespace in ("*", namespace) else []
        return found + ([Rule(verbs, paths=(self.path,))] if self.path else [])


class ABACAuthorizer:
    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = tuple(policies)

    @classmethod
    def load(cls, path: Path) -> "ABACAuthorizer":
        """Raises OSError, and ValueError that names the line."""
        return cls(read(path.read_bytes()))

    def replace(self, policies: Sequence[Policy]) -> None:
        self._policies = tuple(policies)

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        if any(policy.is_for(attributes.user) and policy.allows(attributes) for policy in self._policies):
            return Decision.ALLOW, ""
        return Decision.NO_OPINION, "No policy matched."

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """For SelfSubjectRulesReview."""
        return [rule for policy in self._policies if policy.is_for(user) for rule in policy.rules(namespace)]


def read(data: bytes) -> list[Policy]:
    """Raises ValueError that names the line."""
    policies = []
    for number, line in enumerate(data.decode().splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            policies.append(_policy(line, number))
    return policies


def _policy(line: str, number: int) -> Policy:
    try:
        given: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(given, dict) or given.get("apiVersion") != _VERSION or given.get("kind") != "Policy":
        raise ValueError(f"line {number}: must be a Policy of {_VERSION}")
    spec = given.get("spec") or {}
    texts = {name: str(spec.get(key) or "") for name, key in _TEXTS.items()}
    return Policy(readonly=bool(spec.get("readonly")), **texts)


_TEXTS = {
    "user": "user",
    "group": "group",
    "api_group": "apiGroup",
    "resource": "resource",
    "namespace": "namespace",
    "path": "nonResourcePath",
}
