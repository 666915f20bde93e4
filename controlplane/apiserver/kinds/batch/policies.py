"""Validation of a Job's policies: when its pods' failures count (KEP-3329, KEP-3850), when it has succeeded (KEP-3998)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

Object = Mapping[str, Any]

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_MAX_RULES = 20
_MAX_CODES = 255
_MAX_PATTERNS = 20
_MAX_INDEXES = 64 * 1024


def check_policies(spec: Object, path: str) -> list[FieldError]:
    """``podFailurePolicy``, ``successPolicy`` and ``podReplacementPolicy`` of a Job spec at ``path``."""
    found: list[FieldError] = []
    failure, success, replacement = (spec.get(f"{name}Policy") for name in ("podFailure", "success", "podReplacement"))
    if failure is not None:
        found += _check_failure_policy(failure, spec, f"{path}.podFailurePolicy.rules")
    if success is not None:
        if spec.get("completionMode") != "Indexed":
            text = "requires indexed completion mode"
            found.append(fieldpath.invalid(f"{path}.successPolicy", dict(success), text))
        else:
            found += _check_success_policy(success, spec.get("completions") or 0, f"{path}.successPolicy.rules")
    allowed = _REPLACEMENTS if failure is None else ("Failed",)
    if replacement is not None and replacement not in allowed:
        found.append(fieldpath.not_supported(f"{path}.podReplacementPolicy", replacement, allowed))
    return found


def _choice(value: str, choices: Sequence[str], path: str) -> list[FieldError]:
    """A required word; upstream lists the choices as Go prints a list of strings."""
    if value in choices:
        return []
    if value:
        return [fieldpath.not_supported(path, value, choices)]
    listed = " ".join(f'"{one}"' for one in choices)
    return [fieldpath.required(path, f"valid values: [{listed}]")]


def _check_failure_policy(policy: Object, spec: Object, path: str) -> list[FieldError]:
    rules = policy.get("rules") or ()
    found = [fieldpath.too_many(path, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {one.get("name") for part in ("initContainers", "containers") for one in pod.get(part) or ()}
    for position, rule in enumerate(rules):
        found += _check_failure_rule(rule, spec, containers, f"{path}[{position}]")
    return found


def _check_failure_rule(rule: Object, spec: Object, containers: Collection[str | None], path: str) -> list[FieldError]:
    action, codes, patterns = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    found = _choice(action, _ACTIONS, f"{path}.action")
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        found.append(fieldpath.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    if codes is not None:
        found += _check_exit_codes(codes, containers, f"{path}.onExitCodes")
    if len(patterns) > _MAX_PATTERNS:
        found.append(fieldpath.too_many(f"{path}.onPodConditions", len(patterns), _MAX_PATTERNS))
    for position, pattern in enumerate(patterns):
        where, kind = f"{path}.onPodConditions[{position}]", pattern.get("type") or ""
        found += checks.each(f"{where}.type", kind, names.is_qualified_name(kind))
        found += _choice(pattern.get("status") or "", _STATUSES, f"{where}.status")
    if codes is not None and patterns:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        found.append(fieldpath.invalid(path, fieldpath.OMITTED, text))
    if codes is None and not patterns:
        found.append(fieldpath.invalid(path, fieldpath.OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return found


def _check_exit_codes(codes: Object, containers: Collection[str | None], path: str) -> list[FieldError]:
    operator, container, values = codes.get("operator") or "", codes.get("containerName"), codes.get("values") or []
    found = _choice(operator, _OPERATORS, f"{path}.operator")
    if container is not None and container not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        found.append(fieldpath.invalid(f"{path}.containerName", container, text))
    where = f"{path}.values"
    if not values:
        found.append(fieldpath.invalid(where, values, "at least one value is required"))
    elif len(values) > _MAX_CODES:
        found.append(fieldpath.too_many(where, len(values), _MAX_CODES))
    for position, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(fieldpath.invalid(f"{where}[{position}]", value, "must not be 0 for the In operator"))
        if value in values[:position]:
            found.append(fieldpath.duplicate(f"{where}[{position}]", value))
    if values != sorted(values):
        found.append(fieldpath.invalid(where, values, "must be ordered"))
    return found


def _check_success_policy(policy: Object, completions: int, path: str) -> list[FieldError]:
    rules = policy.get("rules") or ()
    found: list[FieldError] = []
    if not rules:
        found.append(fieldpath.required(path, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _MAX_RULES:
        found.append(fieldpath.too_many(path, len(rules), _MAX_RULES))
    for position, rule in enumerate(rules):
        found += _check_success_rule(rule, completions, f"{path}[{position}]")
    return found


def _check_success_rule(rule: Object, completions: int, path: str) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        return [fieldpath.required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    found: list[FieldError] = []
    total = 0
    if indexes is not None:
        where = f"{path}.succeededIndexes"
        if len(indexes) > _MAX_INDEXES:
            found.append(fieldpath.too_long(where, _MAX_INDEXES))
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            found.append(fieldpath.invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        where = f"{path}.succeededCount"
        found += checks.not_negative(count, where)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            found.append(fieldpath.invalid(where, count, text))
        if indexes is not None and count > total:
            named = "the number of indexes in the specified succeededIndexes field"
            found.append(fieldpath.invalid(where, count, f"must be less than or equal to {total} ({named})"))
    return found


def count_indexes(text: str, completions: int) -> int:
    """How many indexes ``1,3-5,7`` names. Raises ValueError with upstream's words."""
    total, last = 0, -1
    for fragment in text.split(",") if text else ():
        limits = fragment.split("-")
        if len(limits) > 2:
            rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise ValueError(f'the fragment "{fragment}" {rule}')
        first, *rest = (_index(limit, completions) for limit in limits)
        if rest and first >= rest[0]:
            raise ValueError(f"non-increasing order, previous: {first}, current: {rest[0]}")
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        last = rest[0] if rest else first
        total += last - first + 1
    return total


def _index(text: str, completions: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if len(text) > 10 or int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)
