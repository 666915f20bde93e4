"""Which FlowSchema does a request belong to, and which flow of it? Pure; ``control`` remembers the answers.

Follows upstream's ``pkg/util/flowcontrol/rule.go``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.flowcontrol.configuration import Rule, SchemaSpec
from controlplane.apiserver.wire.info import RequestInfo

_ALL = "*"
_ACCOUNT = "system:serviceaccount:"


def classify(schemas: Iterable[SchemaSpec], user: UserInfo, info: RequestInfo) -> SchemaSpec:
    """The first schema that matches; the last one, which is ``catch-all`` or follows it, when none does."""
    schema = None
    for schema in schemas:
        if any(_rule_matches(rule, user, info) for rule in schema.rules):
            return schema
    if schema is None:
        raise ValueError("there is always a FlowSchema")
    return schema


def distinguisher(schema: SchemaSpec, user: UserInfo, info: RequestInfo) -> str:
    """What tells this flow from the schema's others."""
    if schema.distinguisher == "ByUser":
        return user.name
    return info.namespace if schema.distinguisher == "ByNamespace" else ""


def _rule_matches(rule: Rule, user: UserInfo, info: RequestInfo) -> bool:
    if not any(_is(subject, user) for subject in rule.subjects):
        return False
    if info.is_resource:
        return any(_asks_for_resource(one, info) for one in rule.resources)
    return any(_asks_for_path(one, info) for one in rule.others)


def _is(subject: Sequence[str], user: UserInfo) -> bool:
    kind, name = subject[0], subject[-1]
    if kind == "User":
        return name in (_ALL, user.name)
    if kind == "Group":
        return name == _ALL or name in user.groups
    prefix = f"{_ACCOUNT}{subject[1]}:"
    return user.name.startswith(prefix) if name == _ALL else user.name == prefix + name


def _asks_for_resource(rule: Mapping[str, Any], info: RequestInfo) -> bool:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (_in(rule, "verbs", info.verb) and _in(rule, "resources", resource) and _in(rule, "apiGroups", info.api_group)):
        return False
    return _in(rule, "namespaces", info.namespace) if info.namespace else bool(rule.get("clusterScope"))


def _asks_for_path(rule: Mapping[str, Any], info: RequestInfo) -> bool:
    return _in(rule, "verbs", info.verb) and any(_path_matches(one, info.path) for one in rule.get("nonResourceURLs") or ())


def _path_matches(pattern: str, path: str) -> bool:
    """A path stands for itself and everything below it."""
    if pattern in (_ALL, path):
        return True
    prefix = pattern.removesuffix(_ALL)
    return path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")


def _in(rule: Mapping[str, Any], field: str, value: str) -> bool:
    allowed = rule.get(field) or ()
    return _ALL in allowed or value in allowed
