"""PolicyParameters: nobody has an admission policy read objects for them that they may not read themselves.

What a policy's expressions see of its parameters they can show, in messages and warnings. So who writes a policy must be
allowed to get all objects of its ``paramKind``, and who binds it those of its ``paramRef``. Upstream asks in the registries of
the four kinds (``pkg/registry/admissionregistration/*/authz.go``, whose texts these are); as a validating plugin it stands in
the same place of the road.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.gvk import GroupVersion, GroupVersionKind
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Lookup
from controlplane.apiserver.admission.plugins.base import Validating
from controlplane.apiserver.admission.policy.params import ParamKinds
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes as Asked
from controlplane.apiserver.authorization.interface import Authorizer, Decision

_GROUP = "admissionregistration.k8s.io"
_POLICIES = frozenset({"validatingadmissionpolicies", "mutatingadmissionpolicies"})
_BINDINGS = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}
_SUPERUSERS = "system:masters"
_ALL = "*"
Spec = Mapping[str, Any]


class PolicyParameters(Validating):
    name = "PolicyParameters"

    def __init__(self, lookup: Lookup, authorizer: Authorizer, kinds: ParamKinds) -> None:
        self._lookup, self._authorizer, self._kinds = lookup, authorizer, kinds

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.kind.group == _GROUP
            and not attributes.subresource
            and attributes.operation in (CREATE, UPDATE)
            and (attributes.resource in _POLICIES or attributes.resource in _BINDINGS)
        )

    async def validate(self, attributes: Attributes) -> None:
        """Raises the 422 that the registry gives."""
        if _SUPERUSERS in attributes.user.groups:
            return
        spec, old = _spec(attributes.obj), _spec(attributes.old)
        if attributes.resource in _POLICIES:
            field, problem = "paramKind", await self._policy_problem(attributes.user, spec, old)
        else:
            policies = _BINDINGS[attributes.resource]
            field, problem = "paramRef", await self._binding_problem(attributes.user, policies, spec, old)
        if problem:
            name = ((attributes.obj or {}).get("metadata") or {}).get("name") or ""
            raise errors.invalid(attributes.kind.kind, name, [fieldpath.forbidden(f"spec.{field}", problem)], _GROUP)

    async def _policy_problem(self, user: UserInfo, spec: Spec, old: Spec) -> str:
        kind = spec.get("paramKind")
        if not kind or kind == old.get("paramKind"):
            return ""
        group, version, resource = self._named(kind)
        asked = Asked(user, "get", "", True, group, version, resource, namespace=_ALL, name=_ALL)
        if await self._may(asked):
            return ""
        shown = f"kind={kind.get('kind') or ''}, apiVersion={kind.get('apiVersion') or ''}"
        return f'user {_shown(user)} must have "get" permission on all objects of the referenced paramKind ({shown})'

    async def _binding_problem(self, user: UserInfo, policies: str, spec: Spec, old: Spec) -> str:
        reference, policy_name = spec.get("paramRef"), spec.get("policyName") or ""
        if not reference or (reference == old.get("paramRef") and policy_name == (old.get("policyName") or "")):
            return ""
        policy = await self._lookup(f"{policies}.{_GROUP}", "", policy_name)
        kind = _spec(policy).get("paramKind")
        group, version, resource = self._named(kind) if kind else (_ALL, _ALL, _ALL)
        name, namespace = reference.get("name") or "", reference.get("namespace") or ""
        verb = "get" if name else "list"
        if await self._may(Asked(user, verb, "", True, group, version, resource, namespace=namespace, name=name)):
            return ""
        lacks = f'user {_shown(user)} does not have "{verb}" permission'
        if policy is None:
            why = f"unable to get policy {policy_name} to determine minimum required permissions"
            return f"{why} and {lacks} for all groups, versions and resources"
        if kind and resource == _ALL:
            which = f"&{{{kind.get('apiVersion') or ''} {kind.get('kind') or ''}}}"
            why = f"unable to resolve paramKind {which} to determine minimum required permissions"
            return f"{why} and {lacks} for all groups, versions and resources"
        return f"{lacks} on the object referenced by paramRef"

    def _named(self, kind: Spec) -> tuple[str, str, str]:
        """Group, version and resource to ask for: all that cannot be told."""
        group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
        found = self._kinds.find(GroupVersionKind(*GroupVersion(group, version), str(kind.get("kind") or "")))
        return group, version, _ALL if found is None else found.resource

    async def _may(self, asked: Asked) -> bool:
        return (await self._authorizer.authorize(asked))[0] is Decision.ALLOW


def _spec(obj: Mapping[str, Any] | None) -> Spec:
    found: Spec = (obj or {}).get("spec") or {}
    return found


def _shown(user: UserInfo) -> str:
    """As Go prints the struct."""
    extra = " ".join(f"{key}:[{' '.join(user.extra[key])}]" for key in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
