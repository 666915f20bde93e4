"""Bindings of admission policies: where a policy holds, with which parameters."""

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

_ACTIONS = ("Audit", "Deny", "Warn")
_WITHOUT_PARAMETER = ("Allow", "Deny")


class _BindingStrategy(Strategy):
    columns = (
        NAME,
        Column("PolicyName", description="The policy that is bound."),
        Column("ParamRef", description="Where its parameters are."),
        AGE,
    )
    has_generation = True

    def default(self, obj: Object) -> None:
        match = obj.setdefault("spec", {}).get("matchResources")
        if match is not None:
            rules.default_match(match)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        name = spec.get("policyName") or ""
        path = "spec.policyName"
        found = checks.each(path, name, names.is_dns1123_subdomain(name)) if name else [fieldpath.required(path)]
        if spec.get("paramRef") is not None:
            found += _check_param_ref(spec["paramRef"], "spec.paramRef")
        if spec.get("matchResources") is not None:
            found += rules.check_match(spec["matchResources"], "spec.matchResources")
        return found + self._check_own(spec)

    def _check_own(self, spec: Mapping[str, Any]) -> list[FieldError]:
        return []

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [obj["metadata"]["name"], spec.get("policyName") or "", _param_ref(spec), age_of(obj, now)]


class ValidatingAdmissionPolicyBindingStrategy(_BindingStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "ValidatingAdmissionPolicyBinding"),
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        False,
        categories=("api-extensions",),
    )

    def _check_own(self, spec: Mapping[str, Any]) -> list[FieldError]:
        actions, path = spec.get("validationActions") or (), "spec.validationActions"
        found = [] if actions else [fieldpath.required(path, "at least one validation action is required")]
        for position, action in enumerate(actions):
            if action not in _ACTIONS:
                found.append(fieldpath.not_supported(f"{path}[{position}]", action, _ACTIONS))
            if action in actions[:position]:
                found.append(fieldpath.duplicate(f"{path}[{position}]", action))
        if {"Deny", "Warn"} <= set(actions):
            text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"  # noqa: E501
            found.append(fieldpath.invalid(path, list(actions), text))
        return found


class MutatingAdmissionPolicyBindingStrategy(_BindingStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "MutatingAdmissionPolicyBinding"),
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
        False,
        categories=("api-extensions",),
    )


def _param_ref(spec: Mapping[str, Any]) -> str:
    reference = spec.get("paramRef")
    if not reference:
        return UNSET
    namespace = reference.get("namespace")
    name = reference.get("name") or ""
    return f"{namespace}/{name}" if namespace else name or "*"


def _check_param_ref(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    name, selector = reference.get("name"), reference.get("selector")
    found = checks.each(f"{path}.name", name, names.is_path_segment(name)) if name else []
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        found += [fieldpath.forbidden(f"{path}.{field}", text) for field in ("name", "selector")]
    elif not name and selector is None:
        found.append(fieldpath.required(path, "one of name or selector must be specified"))
    if selector is not None:
        found += checks.label_selector(selector, f"{path}.selector")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        found.append(fieldpath.required(f"{path}.parameterNotFoundAction"))
    elif action not in _WITHOUT_PARAMETER:
        found.append(fieldpath.not_supported(f"{path}.parameterNotFoundAction", action, _WITHOUT_PARAMETER))
    return found
