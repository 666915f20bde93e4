"""Admission policies, validating and mutating: rules in CEL that live in the cluster.

They are stored and their form is checked; expressions are neither compiled nor evaluated yet (``docs/status.md``).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.admissionregistration import rules
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_REINVOCATION = ("IfNeeded", "Never")


class _PolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        if spec.get("matchConstraints") is not None:
            rules.default_match(spec["matchConstraints"])

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
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
        found += rules.check_conditions(spec.get("matchConditions") or (), "spec.matchConditions")
        return found + _check_variables(spec, "spec.variables") + self._check_own(spec)

    def _check_own(self, spec: Mapping[str, Any]) -> list[FieldError]:
        raise NotImplementedError

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)


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

    def _check_own(self, spec: Mapping[str, Any]) -> list[FieldError]:
        validations, notes = spec.get("validations") or (), spec.get("auditAnnotations") or ()
        found: list[FieldError] = []
        if not validations and not notes:
            text = "validations or auditAnnotations must be non-empty"
            found += [fieldpath.required(f"spec.{field}", text) for field in ("validations", "auditAnnotations")]
        for position, validation in enumerate(validations):
            path = f"spec.validations[{position}]"
            if not str(validation.get("expression") or "").strip():
                found.append(fieldpath.required(f"{path}.expression", "expression is not specified"))
            found += _check_message(validation, f"{path}.message")
            reason = validation.get("reason")
            if reason and reason not in _REASONS:
                found.append(fieldpath.not_supported(f"{path}.reason", reason, _REASONS))
        taken: set[str] = set()
        for position, note in enumerate(notes):
            path, key = f"spec.auditAnnotations[{position}]", note.get("key") or ""
            found += [fieldpath.required(f"{path}.{field}") for field in ("key", "valueExpression") if not note.get(field)]
            if key and key in taken:
                found.append(fieldpath.duplicate(f"{path}.key", key))
            taken.add(key)
        return found

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

    def _check_own(self, spec: Mapping[str, Any]) -> list[FieldError]:
        mutations, again = spec.get("mutations") or (), spec.get("reinvocationPolicy")
        found = [] if mutations else [fieldpath.required("spec.mutations", "mutations must contain at least one item")]
        if again not in _REINVOCATION:
            found += checks.one_of(again, _REINVOCATION, "spec.reinvocationPolicy")
        for position, mutation in enumerate(mutations):
            path, kind = f"spec.mutations[{position}]", mutation.get("patchType")
            found += checks.one_of(kind, _PATCH_TYPES, f"{path}.patchType")
            for choice, field in (("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")):
                held = mutation.get(field)
                if kind == choice and held is None:
                    found.append(fieldpath.required(f"{path}.{field}", f"must be specified when patchType is {choice}"))
                elif kind != choice and held is not None:
                    found.append(fieldpath.invalid(f"{path}.{field}", held, f"must not be specified when patchType is {kind}"))
                elif held is not None and not str(held.get("expression") or "").strip():
                    found.append(fieldpath.required(f"{path}.{field}.expression", "expression is not specified"))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [obj["metadata"]["name"], len(spec.get("mutations") or ()), _param_kind(spec), age_of(obj, now)]


def _check_message(validation: Mapping[str, Any], path: str) -> list[FieldError]:
    """One line, and there where the expression would not make one."""
    message, expression = validation.get("message") or "", str(validation.get("expression") or "").strip()
    if message and not message.strip():
        return [fieldpath.invalid(path, message, "message must be non-empty if specified")]
    if "\n" in message.strip():
        return [fieldpath.invalid(path, message, "message must not contain line breaks")]
    if "\n" in expression and not message.strip():
        return [fieldpath.required(path, "message must be specified if expression contains line breaks")]
    return []


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
            found += checks.each(f"{path}.apiVersion", version, names.is_dns1035_label(parts[-1]))
    name = kind.get("kind") or ""
    if not name:
        return [*found, fieldpath.required(f"{path}.kind")]
    return found + checks.each(f"{path}.kind", name, names.is_dns1035_label(name.lower()))


def _check_variables(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, variable in enumerate(spec.get("variables") or ()):
        name, where = variable.get("name") or "", f"{path}[{position}]"
        if not name:
            found.append(fieldpath.required(f"{where}.name", "name is not specified"))
        elif not name.isidentifier() or not name.isascii():
            found.append(fieldpath.invalid(f"{where}.name", name, "name is not a valid CEL identifier"))
        if name in taken:
            found.append(fieldpath.duplicate(f"{where}.name", name))
        taken.add(name)
        if not str(variable.get("expression") or "").strip():
            found.append(fieldpath.required(f"{where}.expression", "expression is not specified"))
    return found
