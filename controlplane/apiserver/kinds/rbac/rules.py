"""What the RBAC kinds share: policy rules, subjects and references to roles."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of, wide
from controlplane.apiserver.registry.strategy import Column

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
ROLE_COLUMNS = (NAME, Column("Created At", type="date", description="When the role was created."))
BINDING_COLUMNS = (
    NAME,
    Column("Role", description="The role that is granted."),
    AGE,
    wide("Users", "Users in the roleBinding"),
    wide("Groups", "Groups in the roleBinding"),
    wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
)


def check_rule(rule: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    """A rule names verbs, and either resources with their groups or URLs outside of resources."""
    found: list[FieldError] = []
    if not rule.get("verbs"):
        found.append(fieldpath.required(f"{path}.verbs", "verbs must contain at least one value"))
    if rule.get("nonResourceURLs"):
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            found.append(fieldpath.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(fieldpath.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
        return found
    if not rule.get("apiGroups"):
        found.append(fieldpath.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(fieldpath.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return found


def check_rules(obj: Object, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for position, rule in enumerate(obj.get("rules") or ()):
        found += check_rule(rule, f"rules[{position}]", namespaced=namespaced)
    return found


def role_row(obj: Object) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def default_binding(obj: Object) -> None:
    role = obj.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def check_binding(obj: Object, *, namespaced: bool) -> list[FieldError]:
    role = obj.get("roleRef") or {}
    found: list[FieldError] = []
    if role.get("apiGroup") != GROUP:
        found.append(fieldpath.not_supported("roleRef.apiGroup", role.get("apiGroup"), (GROUP,)))
    kinds = ("ClusterRole", "Role") if namespaced else ("ClusterRole",)
    if role.get("kind") not in kinds:
        found.append(fieldpath.not_supported("roleRef.kind", role.get("kind") or "", kinds))
    name = role.get("name") or ""
    if not name:
        found.append(fieldpath.required("roleRef.name"))
    else:
        found += checks.each("roleRef.name", name, names.is_path_segment(name))
    for position, subject in enumerate(obj.get("subjects") or ()):
        found += _check_subject(subject, f"subjects[{position}]", namespaced=namespaced)
    return found


def _check_subject(subject: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    name, kind, group = subject.get("name") or "", subject.get("kind") or "", subject.get("apiGroup") or ""
    if not name:
        found.append(fieldpath.required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            found += checks.each(f"{path}.name", name, names.is_dns1123_subdomain(name))
        if group:
            found.append(fieldpath.not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(fieldpath.required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            found.append(fieldpath.not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        found.append(fieldpath.not_supported(f"{path}.kind", kind, ("Group", "ServiceAccount", "User")))
    return found


def check_binding_update(obj: Object, old: Object) -> list[FieldError]:
    if obj.get("roleRef") == old.get("roleRef"):
        return []
    return [fieldpath.invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")]


def binding_row(obj: Object, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        text = subject.get("name") or ""
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace') or obj['metadata'].get('namespace') or ''}/{text}"
        subjects.setdefault(subject.get("kind") or "", []).append(text)
    cells = [", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [obj["metadata"]["name"], f"{role.get('kind', '')}/{role.get('name', '')}", age_of(obj, now), *cells]
