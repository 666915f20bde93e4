"""FlowSchemas: which requests belong to which priority level. ``controlplane.apiserver.flowcontrol`` carries them out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.flowcontrol import bootstrap
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_PRECEDENCE_MAX = 10000
_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


class FlowSchemaStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(bootstrap.GROUP, "v1", "FlowSchema"), "flowschemas", "flowschema", False)
    columns = (
        NAME,
        Column("PriorityLevel", description="The priority level that requests are put into."),
        Column("MatchingPrecedence", description="Which schema wins when several match; the smaller one."),
        Column("DistinguisherMethod", description="What makes requests one flow."),
        AGE,
        Column("MissingPL", description="Whether the priority level does not exist."),
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        found = _check_precedence(spec.get("matchingPrecedence") or 0, name)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in _METHODS:
            found.append(fieldpath.not_supported("spec.distinguisherMethod.type", method, _METHODS))
        level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
        where = "spec.priorityLevelConfiguration.name"
        if level:
            found += checks.each(where, level, names.is_dns1123_subdomain(level))
        else:
            found.append(fieldpath.required(where, "must reference a priority level"))
        for position, rule in enumerate(spec.get("rules") or ()):
            found += _check_rule(rule, f"spec.rules[{position}]")
        if name in bootstrap.MANDATORY_SCHEMAS and spec != bootstrap.MANDATORY_SCHEMAS[name]:
            found.append(fieldpath.invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        held = (obj.get("status") or {}).get("conditions") or ()
        dangling = next((one.get("status") for one in held if one.get("type") == "Dangling"), "?")
        return [
            obj["metadata"]["name"],
            (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
            spec.get("matchingPrecedence") or 0,
            (spec.get("distinguisherMethod") or {}).get("type") or NONE,
            age_of(obj, now),
            dangling,
        ]


def _check_precedence(value: int, name: str) -> list[FieldError]:
    path = "spec.matchingPrecedence"
    if value <= 0:
        return [fieldpath.invalid(path, value, "must be a positive value")]
    if value > _PRECEDENCE_MAX:
        return [fieldpath.invalid(path, value, f"must not be greater than {_PRECEDENCE_MAX}")]
    if value == 1 and name != "exempt":
        return [fieldpath.invalid(path, value, "only the schema named 'exempt' may have matchingPrecedence 1")]
    return []


def _check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    subjects, resources, others = (rule.get(field) or () for field in ("subjects", "resourceRules", "nonResourceRules"))
    found = [] if subjects else [fieldpath.required(f"{path}.subjects", "subjects must contain at least one value")]
    for position, subject in enumerate(subjects):
        found += _check_subject(subject, f"{path}.subjects[{position}]")
    if not resources and not others:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        found.append(fieldpath.required(path, text))
    for position, one in enumerate(resources):
        where = f"{path}.resourceRules[{position}]"
        for field in ("verbs", "apiGroups", "resources"):
            found += _check_words(one.get(field) or (), f"{where}.{field}", field)
        found += _check_namespaces(one, where)
    for position, one in enumerate(others):
        where = f"{path}.nonResourceRules[{position}]"
        for field in ("verbs", "nonResourceURLs"):
            found += _check_words(one.get(field) or (), f"{where}.{field}", field)
        for at, url in enumerate(one.get("nonResourceURLs") or ()):
            found += _check_url(url, f"{where}.nonResourceURLs[{at}]")
    return found


def _check_url(url: str, path: str) -> list[FieldError]:
    """A path with at most a star at its end; upstream names the first thing wrong."""
    if not url:
        return [fieldpath.invalid(path, url, "must not be empty")]
    if url in ("*", "/"):
        return []
    wrong = (
        (not url.startswith("/"), "must start with slash"),
        (" " in url, "must not contain white-space"),
        ("//" in url, "must not contain double slash"),
        ("*" in url[:-1], "wildcard can only do suffix matching"),
    )
    return next(([fieldpath.invalid(path, url, text)] for found, text in wrong if found), [])


def _check_subject(subject: Mapping[str, Any], path: str) -> list[FieldError]:
    kind = subject.get("kind") or ""
    member = _SUBJECTS.get(kind)
    if member is None:
        return [fieldpath.not_supported(f"{path}.kind", kind, tuple(_SUBJECTS))]
    found = [
        fieldpath.forbidden(f"{path}.{other}", f"{other} is forbidden when subject kind is not '{word}'")
        for word, other in _SUBJECTS.items()
        if other != member and subject.get(other) is not None
    ]
    held = subject.get(member)
    if held is None:
        return [*found, fieldpath.required(f"{path}.{member}", f"{member} is required when subject kind is '{kind}'")]
    fields = ("namespace", "name") if kind == "ServiceAccount" else ("name",)
    return found + [fieldpath.required(f"{path}.{member}.{field}") for field in fields if not held.get(field)]


def _check_words(values: Sequence[str], path: str, word: str) -> list[FieldError]:
    if not values:
        return [fieldpath.required(path, f"{word} must contain at least one value")]
    if len(values) > 1 and "*" in values:
        return [fieldpath.invalid(path, list(values), f"if '*' is present, must not specify other {word}")]
    return []


def _check_namespaces(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        return [fieldpath.required(f"{path}.namespaces", text)]
    if "*" in namespaces:
        text = "may not contain '*' with other items"
        return [fieldpath.invalid(f"{path}.namespaces", list(namespaces), text)] if len(namespaces) > 1 else []
    found: list[FieldError] = []
    for position, namespace in enumerate(namespaces):
        found += checks.each(f"{path}.namespaces[{position}]", namespace, names.is_dns1123_label(namespace))
    return found
