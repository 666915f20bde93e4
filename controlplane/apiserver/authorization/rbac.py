"""RBAC: what Roles and ClusterRoles grant to whom by RoleBindings and ClusterRoleBindings. Never denies.

The objects come from a ``RoleSource``, which ``assembly`` fills from the watch caches. They are compiled into one table, by
subject, when something has changed and somebody asks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from apimachinery import labels
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import Rule

Object = dict[str, Any]
_REMEMBERED = 4096  # decisions


class RoleSource(Protocol):
    """The four kinds as they are now. ``generation`` changes with every change."""

    @property
    def generation(self) -> int: ...

    def roles(self) -> Iterable[Object]: ...

    def cluster_roles(self) -> Iterable[Object]: ...

    def role_bindings(self) -> Iterable[Object]: ...

    def cluster_role_bindings(self) -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules that one binding gives, in ``namespace`` or (empty) everywhere. ``binding`` and ``role`` are for explanations."""

    rules: tuple[Rule, ...]
    namespace: str
    binding: str
    role: str


class RBACAuthorizer:
    def __init__(self, source: RoleSource) -> None:
        self._source = source
        self._generation = -1
        self._grants: dict[tuple[str, str], list[Grant]] = {}
        self._decided: dict[tuple[object, ...], tuple[Decision, str]] = {}

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        """Remembered until a role or binding changes: most requests ask what was asked before."""
        if self._source.generation != self._generation:
            self._compile()
        key = _key(attributes)
        decided = self._decided.get(key)
        if decided is None:
            if len(self._decided) >= _REMEMBERED:
                self._decided.clear()
            decided = self._decided[key] = self._decide(attributes)
        return decided

    def _decide(self, attributes: Attributes) -> tuple[Decision, str]:
        for grant in self._grants_of(attributes.user):
            if grant.namespace and grant.namespace != attributes.namespace:
                continue
            for rule in grant.rules:
                if rule.allows(attributes):
                    return Decision.ALLOW, f"RBAC: allowed by {grant.binding} of {grant.role} to {attributes.user.name!r}"
        return Decision.NO_OPINION, ""

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """Everything the user may do in a namespace, for SelfSubjectRulesReview."""
        return [rule for grant in self._grants_of(user) if grant.namespace in ("", namespace) for rule in grant.rules]

    def _grants_of(self, user: UserInfo) -> Iterable[Grant]:
        if self._source.generation != self._generation:
            self._compile()
        grants = self._grants
        yield from grants.get(("User", user.name), ())
        for group in user.groups:
            yield from grants.get(("Group", group), ())

    def _compile(self) -> None:
        self._generation = self._source.generation
        self._grants = compile_grants(self._source)
        self._decided.clear()


def _key(asked: Attributes) -> tuple[object, ...]:
    """Everything that ``Rule.allows`` and the grants look at."""
    user = asked.user
    what = (asked.api_group, asked.resource, asked.subresource, asked.namespace, asked.name) if asked.is_resource else asked.path
    return (user.name, tuple(user.groups), asked.verb, what)


def compile_grants(source: RoleSource) -> dict[tuple[str, str], list[Grant]]:
    """The table: subject to what it was given. Bindings to roles that do not exist give nothing."""
    cluster_roles = {role["metadata"]["name"]: role for role in source.cluster_roles()}
    compiled = {name: rules_of(role, cluster_roles) for name, role in cluster_roles.items()}
    roles = {(role["metadata"]["namespace"], role["metadata"]["name"]): rules_of(role, {}) for role in source.roles()}
    table: dict[tuple[str, str], list[Grant]] = {}
    for binding in source.cluster_role_bindings():
        name = binding["roleRef"].get("name", "")
        _add(table, binding, Grant(compiled.get(name, ()), "", _shown(binding), f"ClusterRole {name!r}"))
    for binding in source.role_bindings():
        reference, namespace = binding["roleRef"], binding["metadata"]["namespace"]
        name = reference.get("name", "")
        local = reference.get("kind") == "Role"
        rules = roles.get((namespace, name), ()) if local else compiled.get(name, ())
        _add(table, binding, Grant(rules, namespace, _shown(binding), f"{reference.get('kind')} {name!r}"))
    return table


def _shown(binding: Object) -> str:
    meta = binding["metadata"]
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{binding.get('kind', 'binding')} {where + meta['name']!r}"


def _add(table: dict[tuple[str, str], list[Grant]], binding: Object, grant: Grant) -> None:
    if not grant.rules:
        return
    for subject in binding.get("subjects") or []:
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or grant.namespace
            kind, name = "User", f"system:serviceaccount:{namespace}:{name}"
        table.setdefault((kind, name), []).append(grant)


def rules_of(role: Object, cluster_roles: Mapping[str, Object], seen: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
    """A role's own rules and, for an aggregated one, those of the roles that its selectors match, and so on."""
    own = [rule_from(rule) for rule in role.get("rules") or []]
    selectors = [labels.from_label_selector(one) for one in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []]
    if selectors:
        seen |= {role["metadata"]["name"]}
        for name, other in cluster_roles.items():
            held = other["metadata"].get("labels") or {}
            if name not in seen and any(selector.matches(held) for selector in selectors):
                own += rules_of(other, cluster_roles, seen)
    return tuple(dict.fromkeys(own))


def rule_from(rule: Object) -> Rule:
    return Rule(
        tuple(rule.get("verbs") or ()),
        tuple(rule.get("apiGroups") or ()),
        tuple(rule.get("resources") or ()),
        tuple(rule.get("resourceNames") or ()),
        tuple(rule.get("nonResourceURLs") or ()),
    )
