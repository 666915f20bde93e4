"""Reads an AuthorizationConfiguration (``apiserver.config.k8s.io``): authorizers in their order, several webhooks among them.

Pure: text in, values or OperatorError out. Rules and their words are upstream's (``pkg/apis/apiserver/validation``). Called at
start and again whenever the file changes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from apimachinery import names
from component import strict
from component.errors import OperatorError
from component.flags import parse_duration
from controlplane.apiserver.authorization.entries import AuthorizerEntry, WebhookEntry
from controlplane.apiserver.authorization.match_conditions import MatchConditions

FLAG = "--authorization-config"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
TYPES = ("Webhook", "Node", "RBAC", "ABAC", "AlwaysAllow", "AlwaysDeny")
_GROUP = "apiserver.config.k8s.io"
_MOST_BYTES = 1 << 20
_MOST_SECONDS = 30.0
_MOST_CONDITIONS = 64
_WEBHOOK: strict.Shape = {
    **dict.fromkeys(("authorizedTTL", "cacheAuthorizedRequests", "unauthorizedTTL", "cacheUnauthorizedRequests", "timeout")),
    **dict.fromkeys(("subjectAccessReviewVersion", "matchConditionSubjectAccessReviewVersion", "failurePolicy")),
    "connectionInfo": {"type": None, "kubeConfigFile": None},
    "matchConditions": [{"expression": None}],
}
_SHAPE: strict.Shape = {
    "apiVersion": None,
    "kind": None,
    "authorizers": [{"type": None, "name": None, "webhook": _WEBHOOK}],
}


def read(data: bytes) -> tuple[AuthorizerEntry, ...]:
    """Raises OperatorError."""
    if len(data) > _MOST_BYTES:
        raise OperatorError(f"{FLAG}: larger than {_MOST_BYTES} bytes")
    try:
        document = strict.load(data)
        known = [f"{_GROUP}/{version}" for version in VERSIONS]
        kind = "AuthorizationConfiguration"
        if not isinstance(document, dict) or document.get("kind") != kind or document.get("apiVersion") not in known:
            raise OperatorError(f"{FLAG}: must be of kind {kind}, apiVersion {' or '.join(known)}")
        strict.check(document, _SHAPE)
    except yaml.YAMLError as error:
        raise OperatorError(f"{FLAG}: not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise OperatorError(f"{FLAG}: {error}") from None
    listed = document.get("authorizers")
    if not isinstance(listed, list) or not listed:
        raise OperatorError(f"{FLAG}: authorizers: Required value: at least one authorization mode must be defined")
    entries = tuple(_entry(f"{FLAG}: authorizers[{number}]", each) for number, each in enumerate(listed))
    _check_distinct(entries)
    return entries


def _check_distinct(entries: Sequence[AuthorizerEntry]) -> None:
    for number, entry in enumerate(entries):
        before = entries[:number]
        if entry.type != "Webhook" and any(other.type == entry.type for other in before):
            raise OperatorError(f"{FLAG}: authorizers[{number}].type: Duplicate value: {entry.type!r}")
        if any(other.name == entry.name for other in before):
            raise OperatorError(f"{FLAG}: authorizers[{number}].name: Duplicate value: {entry.name!r}")


def _entry(where: str, given: Any) -> AuthorizerEntry:
    if not isinstance(given, Mapping):
        raise OperatorError(f"{where}: must be a mapping")
    kind, name = str(given.get("type") or ""), str(given.get("name") or "")
    if kind not in TYPES:
        raise OperatorError(f"{where}.type: Unsupported value: {kind!r}: supported values: {', '.join(TYPES)}")
    if not name:
        raise OperatorError(f"{where}.name: Required value")
    if problems := names.is_dns1123_subdomain(name):
        raise OperatorError(f"{where}.name: Invalid value: {name!r}: authorizer name is invalid: {problems[0]}")
    webhook = given.get("webhook")
    if kind == "Webhook":
        if not isinstance(webhook, Mapping):
            raise OperatorError(f"{where}.webhook: Required value: required when type=Webhook")
        return AuthorizerEntry(kind, name, _webhook(f"{where}.webhook", webhook))
    if webhook is not None:
        raise OperatorError(f"{where}.webhook: Invalid value: may only be specified when type=Webhook")
    return AuthorizerEntry(kind, name)


def _webhook(where: str, given: Mapping[str, Any]) -> WebhookEntry:
    timeout = _seconds(where, "timeout", given.get("timeout"), None)
    if not 0 < timeout <= _MOST_SECONDS:
        raise OperatorError(f"{where}.timeout: Invalid value: {given.get('timeout')!r}: must be > 0s and <= 30s")
    version = str(given.get("subjectAccessReviewVersion") or "")
    _one_of(where, "subjectAccessReviewVersion", version, ("v1", "v1beta1"))
    policy = str(given.get("failurePolicy") or "")
    _one_of(where, "failurePolicy", policy, ("NoOpinion", "Deny"))
    expressions = tuple(str((each or {}).get("expression") or "") for each in given.get("matchConditions") or ())
    if len(expressions) > _MOST_CONDITIONS:
        raise OperatorError(f"{where}.matchConditions: Too many: {len(expressions)}: must have at most {_MOST_CONDITIONS} items")
    if expressions:
        _one_of(
            where,
            "matchConditionSubjectAccessReviewVersion",
            given.get("matchConditionSubjectAccessReviewVersion") or "",
            ("v1",),
        )
    MatchConditions(expressions, f"{where}.matchConditions")
    permission = _seconds(where, "authorizedTTL", given.get("authorizedTTL"), 300.0)
    refusal = _seconds(where, "unauthorizedTTL", given.get("unauthorizedTTL"), 30.0)
    ttls = (
        permission if given.get("cacheAuthorizedRequests", True) else 0.0,
        refusal if given.get("cacheUnauthorizedRequests", True) else 0.0,
    )
    kubeconfig = _connection(f"{where}.connectionInfo", given.get("connectionInfo") or {})
    return WebhookEntry(kubeconfig, timeout, policy == "Deny", ttls, version, expressions)


def _connection(where: str, given: Mapping[str, Any]) -> Path | None:
    kind, file = str(given.get("type") or ""), given.get("kubeConfigFile")
    _one_of(where, "type", kind, ("KubeConfigFile", "InClusterConfig"))
    if kind == "InClusterConfig":
        if file:
            raise OperatorError(f"{where}.kubeConfigFile: Invalid value: {file!r}: can only be set when type=KubeConfigFile")
        return None
    if not file:
        raise OperatorError(f"{where}.kubeConfigFile: Required value")
    path = Path(str(file))
    if not path.is_absolute():
        raise OperatorError(f"{where}.kubeConfigFile: Invalid value: {file!r}: must be an absolute path")
    if not path.is_file():
        raise OperatorError(f"{where}.kubeConfigFile: Invalid value: {file!r}: must be an existing regular file")
    return path


def _one_of(where: str, member: str, value: str, allowed: Sequence[str]) -> None:
    if not value:
        raise OperatorError(f"{where}.{member}: Required value")
    if value not in allowed:
        raise OperatorError(f"{where}.{member}: Unsupported value: {value!r}: supported values: {', '.join(allowed)}")


def _seconds(where: str, member: str, given: Any, default: float | None) -> float:
    if given is None:
        if default is None:
            raise OperatorError(f"{where}.{member}: Required value")
        return default
    try:
        seconds = parse_duration(str(given))
    except ValueError as error:
        raise OperatorError(f"{where}.{member}: Invalid value: {given!r}: {error}") from None
    if seconds <= 0:
        raise OperatorError(f"{where}.{member}: Invalid value: {given!r}: must be > 0s")
    return seconds
