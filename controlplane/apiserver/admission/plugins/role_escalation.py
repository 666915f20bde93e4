"""RoleEscalation: nobody grants by RBAC what they may not do themselves, unless they may ``escalate`` or ``bind``.

Upstream does this in the storage of the four kinds; as a validating plugin it stands in the same place of the road.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Listing, Lookup, Object, refuse
from controlplane.apiserver.authorization.interface import Attributes as Asked
from controlplane.apiserver.authorization.interface import Authorizer, Decision
from controlplane.apiserver.authorization.rbac import rules_of
from controlplane.apiserver.authorization.rules import rule_value

_GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({"roles", "clusterroles"})
_SHOWN = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
_COLLECTION = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"})
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})


class RoleEscalation:
    name = "RoleEscalation"

    def __init__(self, lookup: Lookup, authorizer: Authorizer, listing: Listing) -> None:
        self._lookup, self._authorizer, self._listing = lookup, authorizer, listing

    def handles(self, attributes: Attributes) -> bool:
        kind = attributes.kind
        return kind.group == _GROUP and attributes.operation in (CREATE, UPDATE) and attributes.resource in _ROLES | _BINDINGS

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj or {}, attributes.old or {}
        if attributes.operation == UPDATE and _but_for_collection(obj) == _but_for_collection(old):
            return
        if attributes.resource in _ROLES:
            if await self._may(attributes, "escalate", attributes.resource, _name(obj)):
                return
            rules = list(obj.get("rules") or [])
            # selects roles nobody has written yet: only who may do everything may ask for it, or for less of it
            if obj.get("aggregationRule") or old.get("aggregationRule"):
                rules.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        else:
            reference = obj.get("roleRef") or {}
            plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
            if await self._may(attributes, "bind", plural, reference.get("name", "")):
                return
            namespace = attributes.namespace if plural == "roles" else ""
            role = await self._lookup(f"{plural}.{_GROUP}", namespace, reference.get("name", ""))
            if role is None:  # what it will give nobody knows: only who may bind it may wait for it
                raise errors.not_found(plural, reference.get("name", ""), _GROUP)
            rules = await self._given_by(role)
        await self._check(attributes, rules)

    async def _given_by(self, role: Object) -> list[Object]:
        """What a role gives: for an aggregated one, what all that it selects give."""
        if not role.get("aggregationRule"):
            return list(role.get("rules") or [])
        others = {other["metadata"]["name"]: other for other in await self._listing(f"clusterroles.{_GROUP}", "")}
        return [rule_value(rule) for rule in rules_of(role, others)]

    async def _may(self, attributes: Attributes, verb: str, resource: str, name: str) -> bool:
        asked = Asked(attributes.user, verb, "", True, _GROUP, "v1", resource, "", attributes.namespace, name)
        return (await self._authorizer.authorize(asked))[0] is Decision.ALLOW

    async def _check(self, attributes: Attributes, rules: list[Object]) -> None:
        missing = []
        for rule in rules:
            for asked in demands(rule, attributes):
                if (await self._authorizer.authorize(asked))[0] is not Decision.ALLOW:
                    missing.append(rule)
                    break
        if missing:
            user = attributes.user
            shown = "\n".join(_shown(rule) for rule in missing)
            who = f"user {_quoted(user.name)} (groups={_listed(user.groups)})"
            why = f"{who} is attempting to grant RBAC permissions not currently held:\n{shown}"
            raise refuse(attributes, why)


def demands(rule: Object, attributes: Attributes) -> Iterator[Asked]:
    """Every single permission that a rule gives; ``*`` is asked for as such, which only a ``*`` covers."""
    for verb in rule.get("verbs") or []:
        for path in rule.get("nonResourceURLs") or []:
            yield Asked(attributes.user, verb, path, is_resource=False)
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                plural, _, subresource = resource.partition("/")
                for name in rule.get("resourceNames") or [""]:
                    yield Asked(attributes.user, verb, "", True, group, "", plural, subresource, attributes.namespace, name)


def _name(obj: dict[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def _shown(rule: Object) -> str:
    """As upstream writes a rule in one line."""
    parts = [f"{name[0].upper()}{name[1:]}:{_listed(rule[name])}" for name in _SHOWN if rule.get(name)]
    return "{" + ", ".join(parts).replace("ApiGroups", "APIGroups", 1) + "}"


def _listed(texts: Iterable[str]) -> str:
    return f"[{' '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _but_for_collection(obj: Object) -> Object:
    """Without what the garbage collector changes, and what every write does. All else is checked again: a label can gather a role
    into another one."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _COLLECTION}
    return {**obj, "metadata": metadata}
