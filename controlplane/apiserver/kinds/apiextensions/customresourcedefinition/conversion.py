"""How objects of one version become another: not at all, or by a webhook."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks, webhook_clients

STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_NOT_SET = "should not be set when strategy is not set to Webhook"


def check(conversion: Mapping[str, Any], path: str, *, recognized: bool, bundle: bool) -> list[FieldError]:
    """``recognized``: one of the webhook's versions must be one that this server speaks. ``bundle``: so must its CAs."""
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or ()
    here = f"{path}.webhookClientConfig"
    found = checks.one_of(strategy, STRATEGIES, f"{path}.strategy")
    if strategy != "Webhook":
        found += [fieldpath.forbidden(here, _NOT_SET)] if client is not None else []
        return found + ([fieldpath.forbidden(f"{path}.conversionReviewVersions", _NOT_SET)] if versions else [])
    if client is None:
        found.append(fieldpath.required(here, "required when strategy is set to Webhook"))
    else:
        found += webhook_clients.check_client(client, here)
        if bundle and client.get("caBundle"):
            found += webhook_clients.check_bundle(client["caBundle"], f"{here}.caBundle")
    return found + _check_versions(versions, f"{path}.conversionReviewVersions", recognized=recognized)


def _check_versions(versions: Sequence[str], path: str, *, recognized: bool) -> list[FieldError]:
    if not versions:
        return [fieldpath.required(path)]
    found: list[FieldError] = []
    for position, version in enumerate(versions):
        here = f"{path}[{position}]"
        if version in versions[:position]:
            found.append(fieldpath.invalid(here, version, "duplicate version"))
        else:
            found += checks.each(here, version, names.is_dns1035_label(version))
    if recognized and not speaks(versions):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        found.append(fieldpath.invalid(path, list(versions), text))
    return found


def speaks(versions: Sequence[str]) -> bool:
    """Whether a review can be written in one of the versions."""
    return any(version in _REVIEW_VERSIONS for version in versions)
