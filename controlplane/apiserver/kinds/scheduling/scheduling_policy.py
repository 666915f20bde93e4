"""What PodGroups and the templates in Workloads have in common: how their pods are scheduled together.

Source of the rules: the documentation of scheduling.k8s.io/v1alpha2 and its declarative validation tags.
"""

from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]

GROUP, VERSION = "scheduling.k8s.io", "v1alpha2"
_DISRUPTION_MODES = ("Pod", "PodGroup")


def check_group(group: Object, path: str) -> list[FieldError]:
    """Everything but the name: ``group`` is a PodGroup's spec or one template."""
    found = _check_policy(group.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy")
    topology = (group.get("schedulingConstraints") or {}).get("topology") or ()
    if len(topology) > 1:
        found.append(fieldpath.too_many(f"{path}.schedulingConstraints.topology", len(topology), 1))
    for position, constraint in enumerate(topology):
        where, key = f"{path}.schedulingConstraints.topology[{position}].key", constraint.get("key") or ""
        found += checks.each(where, key, names.is_qualified_name(key)) if key else [fieldpath.required(where)]
    if group.get("disruptionMode"):
        found += checks.one_of(group["disruptionMode"], _DISRUPTION_MODES, f"{path}.disruptionMode")
    if group.get("priorityClassName"):
        name = group["priorityClassName"]
        found += checks.each(f"{path}.priorityClassName", name, names.is_dns1123_subdomain(name))
    return found + _check_claims(group.get("resourceClaims") or (), f"{path}.resourceClaims")


def _check_policy(policy: Object, path: str) -> list[FieldError]:
    found = exactly_one(policy, ("basic", "gang"), path)
    gang = policy.get("gang")
    if gang is not None:
        least = gang.get("minCount")
        if not least:
            found.append(fieldpath.required(f"{path}.gang.minCount"))
        elif least < 1:
            found.append(fieldpath.invalid(f"{path}.gang.minCount", least, "must be greater than or equal to 1"))
    return found


def exactly_one(union: Object, members: tuple[str, ...], path: str) -> list[FieldError]:
    """A union, in the words of upstream's declarative validation."""
    given = [name for name in members if union.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not given:
        return [fieldpath.invalid(path, "", f"must specify one of: {listed}")]
    if len(given) > 1:
        return [fieldpath.invalid(path, "{" + ", ".join(given) + "}", f"must specify exactly one of: {listed}")]
    return []


def _check_claims(claims: Any, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, claim in enumerate(claims):
        where, name = f"{path}[{position}]", claim.get("name") or ""
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        elif name in taken:
            found.append(fieldpath.duplicate(where, name))
        else:
            found += checks.each(f"{where}.name", name, names.is_dns1123_label(name))
        taken.add(name)
        found += exactly_one(claim, ("resourceClaimName", "resourceClaimTemplateName"), where)
    return found
