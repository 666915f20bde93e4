"""What the audit log keeps of which requests: an ``audit.k8s.io`` Policy, the first of whose rules that fits decides. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from component.errors import OperatorError
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.wire.info import RequestInfo

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class Level(IntEnum):
    """Each holds all that the one before holds."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def shown(self) -> str:
        return _NAMES[self]


_NAMES = {Level.NONE: "None", Level.METADATA: "Metadata", Level.REQUEST: "Request", Level.REQUEST_RESPONSE: "RequestResponse"}
_LEVELS = {name: level for level, name in _NAMES.items()}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much of a request is kept, and at which stages."""

    level: Level
    omitted: frozenset[str] = frozenset()
    managed_fields: bool = True


NOTHING = Verdict(Level.NONE)


@dataclass(frozen=True, slots=True)
class Resources:
    group: str
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def cover(self, info: RequestInfo) -> bool:
        if self.group != info.api_group:
            return False
        if not self.resources:
            return True
        if self.names and info.name not in self.names:
            return False
        return any(_covers(each, info) for each in self.resources)


def _covers(pattern: str, info: RequestInfo) -> bool:
    whole = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if pattern in ("*", whole):
        return True
    first, slash, second = pattern.partition("/")
    if not slash or not info.subresource:
        return False
    return (first == "*" and second == info.subresource) or (second == "*" and first == info.resource)


@dataclass(frozen=True, slots=True)
class Rule:
    """Fits what meets all that it says; what it leaves empty it does not ask."""

    verdict: Verdict
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def fits(self, user: UserInfo, info: RequestInfo) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return info.is_resource and self._fits_resource(info)
        if self.paths:
            return not info.is_resource and any(_path_fits(pattern, info.path) for pattern in self.paths)
        return True

    def _fits_resource(self, info: RequestInfo) -> bool:
        if self.namespaces and info.namespace not in self.namespaces:
            return False
        return not self.resources or any(each.cover(info) for each in self.resources)


def _path_fits(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


@dataclass(frozen=True, slots=True)
class Policy:
    rules: tuple[Rule, ...]

    def judge(self, user: UserInfo, info: RequestInfo) -> Verdict:
        """What no rule fits is not kept."""
        return next((rule.verdict for rule in self.rules if rule.fits(user, info)), NOTHING)


def policy_from(given: Mapping[str, Any]) -> Policy:
    """Raises OperatorError for what is no policy, as upstream does at start."""
    if given.get("kind") != "Policy" or not str(given.get("apiVersion")).startswith("audit.k8s.io/"):
        raise OperatorError("the audit policy must be a Policy of audit.k8s.io/v1")
    rules = given.get("rules") or []
    if not rules:
        raise OperatorError("the audit policy has no rules: nothing would be kept")
    omitted, hide = _stages(given.get("omitStages")), bool(given.get("omitManagedFields"))
    return Policy(tuple(_rule(number, each, omitted, hide) for number, each in enumerate(rules)))


def _rule(number: int, given: Mapping[str, Any], omitted: frozenset[str], hide: bool) -> Rule:
    level = _LEVELS.get(str(given.get("level")))
    if level is None:
        raise OperatorError(f"audit policy, rules[{number}].level: must be one of {', '.join(_LEVELS)}")
    resources = tuple(
        Resources(str(each.get("group") or ""), tuple(each.get("resources") or ()), tuple(each.get("resourceNames") or ()))
        for each in given.get("resources") or ()
    )
    paths = tuple(given.get("nonResourceURLs") or ())
    if paths and (resources or given.get("namespaces")):
        raise OperatorError(f"audit policy, rules[{number}]: rules cannot apply to both regular resources and non-resource URLs")
    for path in paths:
        if (path != "*" and not path.startswith("/")) or "*" in path[:-1]:
            raise OperatorError(f"audit policy, rules[{number}]: {path!r} must begin with '/', with '*' only at the end")
    own = given.get("omitManagedFields")
    verdict = Verdict(level, omitted | _stages(given.get("omitStages")), not (hide if own is None else own))
    users, groups, verbs, spaces = (frozenset(given.get(name) or ()) for name in ("users", "userGroups", "verbs", "namespaces"))
    return Rule(verdict, users, groups, verbs, resources, spaces, paths)


def _stages(given: Iterable[str] | None) -> frozenset[str]:
    found = frozenset(given or ())
    if unknown := sorted(found - set(STAGES)):
        raise OperatorError(f"audit policy, omitStages: {unknown[0]!r} is none of {', '.join(STAGES)}")
    return found
