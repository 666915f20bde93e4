"""Admission policies, validating and mutating: rules in CEL that live in the cluster. ``admission.policy`` evaluates them."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.admissionregistration import rules
from controlplane.apiserver.kinds.admissionregistration.expressions import BOOL, NULL, STRING, Expressions, same_conditions
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_REINVOCATION = ("IfNeeded", "Never")
_MUTATING = ("*", "CONNECT", "CREATE", "UPDATE")
_MAX_NOTES = 20
_MAX_NOTE = 5 * 1024  # bytes of an expression
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_NEWLINE = re.compile(r"[\n\r]")
_WORDS = """
    true false null in as break const continue else for function if import let loop package namespace return var void while
"""
_RESERVED = frozenset(_WORDS.split())


class _PolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        if spec.get("matchConstraints") is not None:
            rules.default_match(spec["matchConstraints"])

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return self._check(obj, conditions=True)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        """Match conditions that are what they were are not judged again."""
        spec, before = obj["spec"], old["spec"]
        same = same_conditions(spec.get("matchConditions"), before.get("matchConditions"))
        return self._check(obj, conditions=not same or spec.get("paramKind") != before.get("paramKind"))

    def _check(self, obj: Object, *, conditions: bool) -> list[FieldError]:
        spec = obj["spec"]
        found: list[FieldError] = []
        if spec.get("failurePolicy") not in rules.FAILURE_POLICIES:
            found.append(fieldpath.not_supported("spec.failurePolicy", spec.get("failurePolicy") or "", rules.FAILURE_POLICIES))
        if spec.get("paramKind") is not None:
            found += _check_param_kind(spec["paramKind"], "spec.paramKind")
        match = spec.get("matchConstraints")
        if match is None:
            found.append(fieldpath.required("spec.matchConstraints"))
        else:
            found += rules.check_match(match, "spec.matchConstraints")
            if not match.get("resourceRules"):
                found.append(fieldpath.required("spec.matchConstraints.resourceRules"))
        params = spec.get("paramKind") is not None
        if conditions:
            found += rules.check_conditions(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
        expressions = Expressions(params=params)
        found += _check_variables(spec, "spec.variables", expressions)
        return found + self._check_own(obj, expressions)

    def _check_own(self, obj: Object, expressions: Expressions) -> list[FieldError]:
        raise NotImplementedError


class ValidatingAdmissionPolicyStrategy(_PolicyStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "ValidatingAdmissionPolicy"),
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        False,
        categories=("api-extensions",),
    )
    columns = (
        NAME,
        Column("Validations", type="integer", description="How many validations there are."),
        Column("ParamKind", description="The kind of the policy's parameters."),
        AGE,
    )
    has_status = True

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        warnings = ((obj.get("status") or {}).get("typeChecking") or {}).get("expressionWarnings") or ()
        for position, warning in enumerate(warnings):
            path = f"status.typeChecking.expressionWarnings[{position}]"
            found += [
                fieldpath.required(f"{path}.{field}")
                for field in ("warning", "fieldRef")
                if not str(warning.get(field) or "").strip()
            ]
        return found

    def _check_own(self, obj: Object, expressions: Expressions) -> list[FieldError]:
        spec = obj["spec"]
        validations, notes = spec.get("validations") or (), spec.get("auditAnnotations") or ()
        found: list[FieldError] = []
        if not validations and not notes:
            text = "validations or auditAnnotations must contain at least one item"
            found += [fieldpath.required(f"spec.{field}", text) for field in ("validations", "auditAnnotations")]
        for position, validation in enumerate(validations):
            path = f"spec.validations[{position}]"
            if not str(validation.get("expression") or "").strip():
                found.append(fieldpath.required(f"{path}.expression", "expression is not specified"))
            else:
                found += expressions.check(validation["expression"], f"{path}.expression", BOOL)
            found += _check_message_expression(validation.get("messageExpression") or "", path, expressions)
            found += _check_message(validation.get("message") or "", f"{path}.message")
            reason = validation.get("reason")
            if reason and reason not in _REASONS:
                found.append(fieldpath.not_supported(f"{path}.reason", reason, _REASONS))
        return found + _check_notes(obj["metadata"].get("name") or "", notes, expressions)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [obj["metadata"]["name"], len(spec.get("validations") or ()), _param_kind(spec), age_of(obj, now)]


class MutatingAdmissionPolicyStrategy(_PolicyStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "MutatingAdmissionPolicy"),
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicy",
        False,
        categories=("api-extensions",),
    )
    columns = (
        NAME,
        Column("Mutations", type="integer", description="How many mutations there are."),
        Column("ParamKind", description="The kind of the policy's parameters."),
        AGE,
    )

    def _check_own(self, obj: Object, expressions: Expressions) -> list[FieldError]:
        spec = obj["spec"]
        mutations, again = spec.get("mutations") or (), spec.get("reinvocationPolicy")
        found = [] if mutations else [fieldpath.required("spec.mutations", "mutations must contain at least one item")]
        if again not in _REINVOCATION:
            found += checks.one_of(again, _REINVOCATION, "spec.reinvocationPolicy")
        for position, mutation in enumerate(mutations):
            found += _check_mutation(mutation, f"spec.mutations[{position}]", expressions)
        return found + _check_operations(spec.get("matchConstraints") or {})

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [obj["metadata"]["name"], len(spec.get("mutations") or ()), _param_kind(spec), age_of(obj, now)]


def _check_mutation(mutation: Mapping[str, Any], path: str, expressions: Expressions) -> list[FieldError]:
    kind = mutation.get("patchType")
    if found := checks.one_of(kind, _PATCH_TYPES, f"{path}.patchType"):
        return found
    for choice, field in (("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")):
        held, where = mutation.get(field), f"{path}.{field}"
        if kind != choice:
            if held is not None:
                found.append(fieldpath.invalid(where, f"{{{field}}}", f"must not be specified when patchType is {kind}"))
        elif held is None:
            found.append(fieldpath.required(where, f"must be specified when patchType is {choice}"))
        elif not (expression := str(held.get("expression") or "").strip()):
            found.append(fieldpath.required(f"{where}.expression"))
        else:
            found += expressions.mutation(expression, choice, f"{where}.expression")
    return found


def _check_message(message: str, path: str) -> list[FieldError]:
    """One line."""
    if message and not message.strip():
        return [fieldpath.invalid(path, message, "message must be non-empty if specified")]
    if _NEWLINE.search(message.strip()):
        return [fieldpath.invalid(path, message, "message must not contain line breaks")]
    return []


def _check_message_expression(expression: str, path: str, expressions: Expressions) -> list[FieldError]:
    """Messages may not ask the authorizer."""
    where = f"{path}.messageExpression"
    if expression and not expression.strip():
        return [fieldpath.invalid(where, expression, "must be non-empty if specified")]
    return expressions.check(expression, where, STRING, authorizer=False) if expression else []


def _check_notes(policy: str, notes: Sequence[Mapping[str, Any]], expressions: Expressions) -> list[FieldError]:
    """Audit annotations: their keys stand behind the policy's name."""
    found: list[FieldError] = []
    if len(notes) > _MAX_NOTES:
        text = f"must not have more than {_MAX_NOTES} auditAnnotations"
        found.append(fieldpath.invalid("spec.auditAnnotations", list(notes), text))
    taken: set[str] = set()
    for position, note in enumerate(notes):
        path, key = f"spec.auditAnnotations[{position}]", note.get("key") or ""
        qualified = f"{policy}/{key}"
        if policy:
            found += checks.each(f"{path}.key", qualified, names.is_qualified_name(qualified))
        else:
            found.append(fieldpath.invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
        written = str(note.get("valueExpression") or "").strip()
        where = f"{path}.valueExpression"
        if not written:
            found.append(fieldpath.required(where, "valueExpression is not specified"))
        elif len(written.encode()) > _MAX_NOTE:
            found.append(fieldpath.required(where, f"must not exceed {_MAX_NOTE} bytes in length"))
        else:
            found += expressions.check(written, where, STRING, NULL)
        if key in taken:
            found.append(fieldpath.duplicate(f"{path}.key", key))
        taken.add(key)
    return found


def _check_operations(match: Mapping[str, Any]) -> list[FieldError]:
    """Nothing can be changed about what is deleted."""
    return [
        fieldpath.not_supported(f"spec.matchConstraints.resourceRules[{rule}].operations[{position}]", operation, _MUTATING)
        for rule, given in enumerate(match.get("resourceRules") or ())
        for position, operation in enumerate(given.get("operations") or ())
        if operation == "DELETE"
    ]


def _param_kind(spec: Mapping[str, Any]) -> str:
    kind = spec.get("paramKind")
    return f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}" if kind else UNSET


def _check_param_kind(kind: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    version = kind.get("apiVersion") or ""
    if not version:
        found.append(fieldpath.required(f"{path}.apiVersion"))
    else:
        parts = version.split("/")
        if len(parts) > 2:
            text = f"unexpected GroupVersion string: {version}"
            found.append(fieldpath.invalid(f"{path}.apiVersion", version, text))
        else:
            if len(parts) == 2 and parts[0]:
                found += checks.each(f"{path}.apiVersion", parts[0], names.is_dns1123_subdomain(parts[0]))
            if not parts[-1]:
                found.append(fieldpath.invalid(f"{path}.apiVersion", version, "version must be specified"))
            else:
                found += checks.each(f"{path}.apiVersion", parts[-1], names.is_dns1035_label(parts[-1]))
    name = kind.get("kind") or ""
    if not name:
        return [*found, fieldpath.required(f"{path}.kind")]
    problems = names.is_dns1035_label(name.lower())
    words = "may have mixed case, but should otherwise match: "
    return found + ([fieldpath.invalid(f"{path}.kind", name, words + ",".join(problems))] if problems else [])


def _check_variables(spec: Mapping[str, Any], path: str, expressions: Expressions) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, variable in enumerate(spec.get("variables") or ()):
        name, where = variable.get("name") or "", f"{path}[{position}]"
        if not name.strip():
            found.append(fieldpath.required(f"{where}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            found.append(fieldpath.invalid(f"{where}.name", name, "name is not a valid CEL identifier"))
        if name in taken:
            found.append(fieldpath.duplicate(f"{where}.name", name))
        taken.add(name)
        if not str(variable.get("expression") or "").strip():
            found.append(fieldpath.required(f"{where}.expression", "expression is not specified"))
        else:
            found += expressions.variable(name, variable["expression"], f"{where}.expression")
    return found
