"""Validation of what a pod tells the scheduler: node selectors, affinity, tolerations, topology spread, gates."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_scheduling(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if spec.get("nodeSelector"):
        found += checks.labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("affinity"):
        found += validate_affinity(spec["affinity"], f"{path}.affinity")
    if spec.get("tolerations"):
        found += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("topologySpreadConstraints"):
        found += _spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    taken: set[str] = set()
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        name, where = gate.get("name") or "", f"{path}.schedulingGates[{position}]"
        found += checks.each(where, name, names.is_qualified_name(name))
        if name in taken:
            found.append(fieldpath.duplicate(where, name))
        taken.add(name)
    return found


def validate_tolerations(tolerations: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        found += _toleration(toleration, f"{path}[{position}]")
    return found


def _toleration(toleration: Mapping[str, Any], path: str) -> list[FieldError]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    found = checks.label_key(key, f"{path}.key") if key else []
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        found.append(fieldpath.invalid(f"{path}.operator", operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(fieldpath.invalid(f"{path}.effect", effect, text))
    if operator in ("", "Equal"):
        problems = names.is_label_value(value)
        if problems:
            found.append(fieldpath.invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            found.append(fieldpath.invalid(f"{path}.operator", dict(toleration), text))
    else:
        found.append(fieldpath.not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        found.append(fieldpath.not_supported(f"{path}.effect", effect, _EFFECTS))
    return found


def validate_affinity(affinity: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    node = affinity.get("nodeAffinity")
    if node:
        found += _node_affinity(node, f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        part, where = affinity.get(name), f"{path}.{name}"
        if not part:
            continue
        for position, term in enumerate(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            found += _pod_term(term, f"{where}.requiredDuringSchedulingIgnoredDuringExecution[{position}]")
        for position, entry in enumerate(part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            place = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
            found += _weight(entry, place)
            found += _pod_term(entry.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return found


def _weight(entry: Mapping[str, Any], path: str) -> list[FieldError]:
    weight = entry.get("weight") or 0
    return [] if 1 <= weight <= 100 else [fieldpath.invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_affinity(node: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        found += validate_node_selector(required, f"{path}.requiredDuringSchedulingIgnoredDuringExecution")
    for position, entry in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        found += _weight(entry, where) + _node_term(entry.get("preference") or {}, f"{where}.preference")
    return found


def validate_node_selector(selector: Mapping[str, Any], path: str) -> list[FieldError]:
    """A ``v1.NodeSelector``."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [fieldpath.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    found: list[FieldError] = []
    for position, term in enumerate(terms):
        where = f"{path}.nodeSelectorTerms[{position}]"
        found += _node_term(term, where) + _label_values(term, where)
    return found


def _label_values(term: Mapping[str, Any], path: str) -> list[FieldError]:
    """Of what is required: a value that no label can have would keep a pod from every node."""
    found: list[FieldError] = []
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        for at, value in enumerate(expression.get("values") or ()):
            where = f"{path}.matchExpressions[{position}].values[{at}]"
            found += checks.each(where, value, names.is_label_value(value))
    return found


def _node_term(term: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        found += _node_requirement(expression, where)
        found += checks.label_key(expression.get("key") or "", f"{where}.key")
    for position, expression in enumerate(term.get("matchFields") or ()):
        where = f"{path}.matchFields[{position}]"
        found += _field_requirement(expression, where)
    return found


def _node_requirement(expression: Mapping[str, Any], path: str) -> list[FieldError]:
    operator, values = expression.get("operator"), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        return [] if values else [fieldpath.required(f"{path}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [fieldpath.forbidden(f"{path}.values", text)] if values else []
    if operator in ("Gt", "Lt"):
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        return [] if len(values) == 1 else [fieldpath.required(f"{path}.values", text)]
    return [fieldpath.invalid(f"{path}.operator", operator or "", "not a valid selector operator")]


def _field_requirement(expression: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    operator, values, key = expression.get("operator") or "", expression.get("values") or (), expression.get("key") or ""
    if operator not in ("In", "NotIn"):
        found.append(fieldpath.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(fieldpath.required(f"{path}.values", text))
    if key != "metadata.name":
        found.append(fieldpath.invalid(f"{path}.key", key, "not a valid field selector key"))
    else:
        for position, value in enumerate(values):
            found += checks.each(f"{path}.values[{position}]", value, names.is_dns1123_subdomain(value))
    return found


def _pod_term(term: Mapping[str, Any], path: str) -> list[FieldError]:
    found = checks.label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    found += checks.label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        found += checks.each(f"{path}.namespace", namespace, names.is_dns1123_label(namespace))
    if term.get("matchLabelKeys") or term.get("mismatchLabelKeys"):
        found += _label_keys(term, path)
    return found + _topology_key(term, path)


def _label_keys(term: Mapping[str, Any], path: str) -> list[FieldError]:
    """``matchLabelKeys`` and ``mismatchLabelKeys`` (KEP-3633), after ``match_labels`` has put them into the selector."""
    same, other = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    selector = term.get("labelSelector")
    found = _key_names(same, selector, f"{path}.matchLabelKeys") + _key_names(other, selector, f"{path}.mismatchLabelKeys")
    found += _twice_selected(same, selector, path)
    for position, key in enumerate(same):
        if key in other:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            found.append(fieldpath.invalid(f"{path}.matchLabelKeys[{position}]", key, text))
    return found


def _key_names(keys: Sequence[str], selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if not keys:
        return []
    if selector is None:
        return [fieldpath.forbidden(path, "must not be specified when labelSelector is not set")]
    return [error for position, key in enumerate(keys) for error in checks.label_key(key, f"{path}[{position}]")]


def _twice_selected(keys: Sequence[str], selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """A key that the selector already had before it was put there."""
    found: list[FieldError] = []
    seen = set((selector or {}).get("matchLabels") or {})
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in keys and key in seen:
            where = f"{path}[{list(keys).index(key)}]"
            found.append(fieldpath.invalid(where, key, "exists in both matchLabelKeys and labelSelector"))
        seen.add(key)
    return found


def _topology_key(term: Mapping[str, Any], path: str) -> list[FieldError]:
    key, where = term.get("topologyKey") or "", f"{path}.topologyKey"
    found = [] if key else [fieldpath.required(where, "can not be empty")]
    return found + checks.label_key(key, where)


def _spread(constraints: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in constraints]
    for position, constraint in enumerate(constraints):
        where = f"{path}[{position}]"
        skew, action = constraint.get("maxSkew") or 0, constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            found.append(fieldpath.invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            found.append(fieldpath.required(f"{where}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            found.append(fieldpath.not_supported(f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        pair = pairs[position]
        if pair in pairs[position + 1 :]:
            found.append(fieldpath.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        found += _min_domains(constraint, action, where)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(field) not in (None, "Honor", "Ignore"):
                found.append(fieldpath.not_supported(f"{where}.{field}", constraint[field], ("Honor", "Ignore")))
        found += checks.label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
        keys, selector = constraint.get("matchLabelKeys"), constraint.get("labelSelector")
        if keys:
            found += _key_names(keys, selector, f"{where}.matchLabelKeys")
            found += _twice_selected(keys, selector, f"{where}.matchLabelKeys")
    return found


def _min_domains(constraint: Mapping[str, Any], action: str, path: str) -> list[FieldError]:
    least = constraint.get("minDomains")
    if least is None:
        return []
    found: list[FieldError] = []
    if least <= 0:
        found.append(fieldpath.invalid(f"{path}.minDomains", least, "must be greater than zero"))
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        found.append(fieldpath.invalid(f"{path}.minDomains", least, text))
    return found
