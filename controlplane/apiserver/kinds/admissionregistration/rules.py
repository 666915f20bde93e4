"""What all objects of the group share: which requests they are about."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.admissionregistration.expressions import BOOL, Expressions
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def default_rule(rule: Object) -> None:
    if rule.get("scope") is None:
        rule["scope"] = "*"


def default_match(match: Object) -> None:
    """``MatchResources``: everything, unless selectors say otherwise."""
    for selector in ("namespaceSelector", "objectSelector"):
        if match.get(selector) is None:
            match[selector] = {}
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    for part in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(part) or ():
            default_rule(rule)


def check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """``RuleWithOperations``."""
    found: list[FieldError] = []
    operations = rule.get("operations") or ()
    if not operations:
        found.append(fieldpath.required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        found.append(fieldpath.invalid(f"{path}.operations", list(operations), text))
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            found.append(fieldpath.not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS))
    for field, word in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        found += _check_names(rule.get(field) or (), f"{path}.{field}", word, empty=field == "apiGroups")
    found += _check_resources(rule.get("resources") or (), f"{path}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        found.append(fieldpath.not_supported(f"{path}.scope", rule["scope"], _SCOPES))
    return found


def _check_names(values: Sequence[str], path: str, word: str, *, empty: bool) -> list[FieldError]:
    found = [] if values else [fieldpath.required(path)]
    if len(values) > 1 and "*" in values:
        found.append(fieldpath.invalid(path, list(values), f"if '*' is present, must not specify other {word}"))
    if not empty:
        found += [fieldpath.required(f"{path}[{position}]") for position, value in enumerate(values) if not value]
    return found


def _check_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    found = [] if resources else [fieldpath.required(path)]
    whole = {one.partition("/")[2] for one in resources if one.startswith("*/")}  # subresources of everything
    every = {one.partition("/")[0] for one in resources if one.endswith("/*")}  # everything of these resources
    for position, one in enumerate(resources):
        if not one:
            found.append(fieldpath.required(f"{path}[{position}]"))
            continue
        resource, _, part = one.partition("/")
        if part and part != "*" and resource in every:
            text = f"if '{resource}/*' is present, must not specify {one}"
            found.append(fieldpath.invalid(f"{path}[{position}]", one, text))
        if part and resource != "*" and part in whole:
            text = f"if '*/{part}' is present, must not specify {one}"
            found.append(fieldpath.invalid(f"{path}[{position}]", one, text))
    if "*/*" in resources and len(resources) > 1:
        text = "if '*/*' is present, must not specify other resources"
        found.append(fieldpath.invalid(path, list(resources), text))
    elif "*" in resources and any("/" not in one and one != "*" for one in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(fieldpath.invalid(path, list(resources), text))
    return found


def check_named_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    """``NamedRuleWithOperations``."""
    found: list[FieldError] = []
    listed = rule.get("resourceNames") or ()
    for position, name in enumerate(listed):
        where = f"{path}.resourceNames[{position}]"
        found += checks.each(where, name, names.is_path_segment(name))
        if name in listed[:position]:
            found.append(fieldpath.duplicate(where, name))
    return found + check_rule(rule, path)


def check_match(match: Mapping[str, Any], path: str) -> list[FieldError]:
    """``MatchResources``."""
    found: list[FieldError] = []
    policy = match.get("matchPolicy")
    if policy is None:
        found.append(fieldpath.required(f"{path}.matchPolicy"))
    elif policy not in MATCH_POLICIES:
        found.append(fieldpath.not_supported(f"{path}.matchPolicy", policy, MATCH_POLICIES))
    for selector in ("namespaceSelector", "objectSelector"):
        if match.get(selector) is None:
            found.append(fieldpath.required(f"{path}.{selector}"))
        found += checks.label_selector(match.get(selector), f"{path}.{selector}")
    for part in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match.get(part) or ()):
            found += check_named_rule(rule, f"{path}.{part}[{position}]")
    return found


def check_conditions(conditions: Sequence[Mapping[str, Any]], path: str, *, params: bool = False) -> list[FieldError]:
    """Match conditions; ``params`` says whether their expressions have such a variable."""
    expressions = Expressions(params=params)
    found: list[FieldError] = []
    taken: set[str] = set()
    if len(conditions) > 64:
        found.append(fieldpath.too_many(path, len(conditions), 64))
    for position, condition in enumerate(conditions):
        name = condition.get("name") or ""
        where = f"{path}[{position}]"
        text = str(condition.get("expression") or "").strip()
        found += expressions.check(text, f"{where}.expression", BOOL) if text else [fieldpath.required(f"{where}.expression")]
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        else:
            found += checks.each(f"{where}.name", name, names.is_qualified_name(name))
        if name in taken:
            found.append(fieldpath.duplicate(f"{where}.name", name))
        taken.add(name)
    return found
