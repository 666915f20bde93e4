"""Configurations of admission webhooks, both kinds: they differ in one field. ``admission.webhook`` goes by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.admissionregistration import rules
from controlplane.apiserver.kinds.shared import checks, webhook_clients
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ANY_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_REINVOCATION = ("IfNeeded", "Never")


@dataclass(frozen=True, slots=True)
class _Demands:
    """What is asked of webhooks; of a change only what the stored ones meet, which an older server may have let in."""

    silent: bool = True
    known_versions: bool = True
    unique_names: bool = True
    conditions: bool = True

    @classmethod
    def of_update(cls, new: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]]) -> Self:
        names_held = [webhook.get("name") for webhook in old]
        same = len(new) == len(old) and all(
            (one.get("matchConditions") or ()) == (other.get("matchConditions") or ())
            for one, other in zip(new, old, strict=True)
        )
        return cls(
            silent=all(webhook.get("sideEffects") in _SIDE_EFFECTS for webhook in old),
            known_versions=all(_is_known(webhook.get("admissionReviewVersions") or ()) for webhook in old),
            unique_names=len(set(names_held)) == len(names_held),
            conditions=not same,
        )


def _is_known(versions: Sequence[str]) -> bool:
    return not versions or any(version in _REVIEW_VERSIONS for version in versions)


class _WebhooksStrategy(Strategy):
    columns = (NAME, Column("Webhooks", type="integer", description="How many webhooks are configured."), AGE)
    has_generation = True
    _mutating = False

    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            defaults: Object = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
            defaults |= {"namespaceSelector": {}, "objectSelector": {}}
            if self._mutating:
                defaults["reinvocationPolicy"] = "Never"
            for field, value in defaults.items():
                if webhook.get(field) is None:
                    webhook[field] = value
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None and service.get("port") is None:
                service["port"] = 443
            for rule in webhook.get("rules") or ():
                rules.default_rule(rule)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return self._validate(obj, _Demands())

    def _validate(self, obj: Object, demands: _Demands) -> list[FieldError]:
        found: list[FieldError] = []
        taken: set[str] = set()
        for position, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{position}]", webhook.get("name") or ""
            found += self._check(webhook, path, demands)
            if name and name in taken and demands.unique_names:
                found.append(fieldpath.duplicate(f"{path}.name", name))
            taken.add(name)
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._validate(obj, _Demands.of_update(obj.get("webhooks") or (), old.get("webhooks") or ()))

    def _check(self, webhook: Mapping[str, Any], path: str, demands: _Demands) -> list[FieldError]:
        found = _check_name(webhook.get("name") or "", f"{path}.name")
        for position, rule in enumerate(webhook.get("rules") or ()):
            found += rules.check_rule(rule, f"{path}.rules[{position}]")
        choices = [("failurePolicy", rules.FAILURE_POLICIES), ("matchPolicy", rules.MATCH_POLICIES)]
        if self._mutating:
            choices.append(("reinvocationPolicy", _REINVOCATION))
        for field, allowed in choices:
            if webhook.get(field) not in allowed:
                found.append(fieldpath.not_supported(f"{path}.{field}", webhook.get(field) or "", allowed))
        side = webhook.get("sideEffects")
        silence = _SIDE_EFFECTS if demands.silent else _ANY_SIDE_EFFECTS
        if side is None:
            found.append(fieldpath.required(f"{path}.sideEffects", f"must specify one of {', '.join(silence)}"))
        elif side not in silence:
            found.append(fieldpath.not_supported(f"{path}.sideEffects", side, silence))
        seconds = webhook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            found.append(fieldpath.invalid(f"{path}.timeoutSeconds", seconds, text))
        for selector in ("namespaceSelector", "objectSelector"):
            found += checks.label_selector(webhook.get(selector), f"{path}.{selector}")
        found += webhook_clients.check_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
        versions = webhook.get("admissionReviewVersions") or ()
        found += _check_versions(versions, f"{path}.admissionReviewVersions", known=demands.known_versions)
        if demands.conditions:
            found += rules.check_conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions")
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], len(obj.get("webhooks") or ()), age_of(obj, now)]


class ValidatingWebhookConfigurationStrategy(_WebhooksStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "ValidatingWebhookConfiguration"),
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        False,
        categories=("api-extensions",),
    )


class MutatingWebhookConfigurationStrategy(_WebhooksStrategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "MutatingWebhookConfiguration"),
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        False,
        categories=("api-extensions",),
    )
    _mutating = True


def _check_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [fieldpath.required(path)]
    found = checks.each(path, name, names.is_dns1123_subdomain(name))
    if not found and name.count(".") < 2:
        found.append(fieldpath.invalid(path, name, "should be a domain with at least three segments separated by dots"))
    return found


def _check_versions(versions: Sequence[str], path: str, *, known: bool) -> list[FieldError]:
    if not versions:
        return [fieldpath.required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")]
    found: list[FieldError] = []
    for position, version in enumerate(versions):
        if version in versions[:position]:
            found.append(fieldpath.invalid(f"{path}[{position}]", version, "duplicate version"))
        found += checks.each(f"{path}[{position}]", version, names.is_dns1035_label(version))
    if known and not _is_known(versions):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        found.append(fieldpath.invalid(path, list(versions), text))
    return found
