"""Reads an AuthenticationConfiguration (``apiserver.config.k8s.io``): issuers of ID tokens, and where anonymous requests may go.

Pure: text in, a value or OperatorError out. Rules and their words are upstream's (``pkg/apis/apiserver/validation``). Called at
start and again whenever the file changes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from component import strict
from component.errors import OperatorError
from controlplane.apiserver.authentication.claims import Mapper
from controlplane.apiserver.authentication.issuers import ALGORITHMS, Issuer, checked

FLAG = "--authentication-config"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
_GROUP = "apiserver.config.k8s.io"
_MOST_ISSUERS = 64
_MOST_BYTES = 1 << 20
_KEY = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z0-9!$&'()*+,;=:@._~%/-]+")
_RESERVED = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")
_CLAIM: strict.Shape = {"claim": None, "prefix": None, "expression": None}
_SHAPE: strict.Shape = {
    "jwt": [
        {
            "issuer": dict.fromkeys(
                ("url", "discoveryURL", "certificateAuthority", "audiences", "audienceMatchPolicy", "egressSelectorType")
            ),
            "claimValidationRules": [dict.fromkeys(("claim", "requiredValue", "expression", "message"))],
            "claimMappings": {
                "username": _CLAIM,
                "groups": _CLAIM,
                "uid": {"claim": None, "expression": None},
                "extra": [{"key": None, "valueExpression": None}],
            },
            "userValidationRules": [{"expression": None, "message": None}],
        }
    ],
    "anonymous": {"enabled": None, "conditions": [{"path": None}]},
}
_EGRESS = ("controlplane", "cluster")


@dataclass(frozen=True, slots=True)
class AuthenticationConfiguration:
    """``anonymous`` is None when the file leaves it to ``--anonymous-auth``; without ``paths`` it is for all of them."""

    issuers: tuple[Issuer, ...] = ()
    anonymous: bool | None = None
    paths: tuple[str, ...] = ()


def read(data: bytes, own_issuers: Sequence[str] = ()) -> AuthenticationConfiguration:
    """``own_issuers`` are those of service account tokens, which no other may be called. Raises OperatorError."""
    document = document_of(data, FLAG, "AuthenticationConfiguration", VERSIONS, _SHAPE)
    listed = document.get("jwt") or []
    if not isinstance(listed, list):
        raise OperatorError(f"{FLAG}: jwt: must be a list")
    if len(listed) > _MOST_ISSUERS:
        raise OperatorError(f"{FLAG}: jwt: Too many: {len(listed)}: must have at most {_MOST_ISSUERS} items")
    issuers = tuple(_issuer(f"{FLAG}: jwt[{number}]", each) for number, each in enumerate(listed))
    for number, issuer in enumerate(issuers):
        where = f"{FLAG}: jwt[{number}].issuer"
        if issuer.url in own_issuers:
            raise OperatorError(f"{where}.url: Invalid value: {issuer.url!r}: URL must not overlap with disallowed issuers")
        for other in issuers[:number]:
            if issuer.url == other.url:
                raise OperatorError(f"{where}.url: Duplicate value: {issuer.url!r}")
            if issuer.discovery_url == other.discovery_url:
                raise OperatorError(f"{where}.discoveryURL: Duplicate value: {issuer.discovery_url!r}")
    return AuthenticationConfiguration(issuers, *_anonymous(document.get("anonymous")))


def document_of(data: bytes, flag: str, kind: str, versions: Sequence[str], shape: strict.Shape) -> dict[str, Any]:
    """The YAML of a configuration file of the API server, taken at its word. Raises OperatorError."""
    if len(data) > _MOST_BYTES:
        raise OperatorError(f"{flag}: larger than {_MOST_BYTES} bytes")
    try:
        document = strict.load(data)
    except yaml.YAMLError as error:
        raise OperatorError(f"{flag}: not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise OperatorError(f"{flag}: {error}") from None
    known = [f"{_GROUP}/{version}" for version in versions]
    if not isinstance(document, dict) or document.get("kind") != kind or document.get("apiVersion") not in known:
        raise OperatorError(f"{flag}: must be of kind {kind}, apiVersion {' or '.join(known)}")
    try:
        strict.check(document, {"kind": None, "apiVersion": None, **shape})
    except ValueError as error:
        raise OperatorError(f"{flag}: {error}") from None
    return document


def _anonymous(given: Any) -> tuple[bool | None, tuple[str, ...]]:
    if given is None:
        return None, ()
    if not isinstance(given, Mapping):
        raise OperatorError(f"{FLAG}: anonymous: must be a mapping")
    conditions = given.get("conditions") or ()
    enabled = bool(given.get("enabled"))
    if conditions and not enabled:
        raise OperatorError(
            f"{FLAG}: anonymous.conditions: Invalid value: enabled should be set to true when conditions are defined"
        )
    paths = tuple(str((each or {}).get("path") or "") for each in conditions)
    for number, path in enumerate(paths):
        if not path.startswith("/"):
            raise OperatorError(f"{FLAG}: anonymous.conditions[{number}].path: Invalid value: {path!r}: must begin with /")
    return enabled, paths


def _issuer(where: str, given: Any) -> Issuer:
    if not isinstance(given, Mapping):
        raise OperatorError(f"{where}: must be a mapping")
    issuer, mappings = given.get("issuer") or {}, given.get("claimMappings") or {}
    audiences = tuple(str(each) for each in issuer.get("audiences") or ())
    policy = issuer.get("audienceMatchPolicy") or ""
    if policy not in ("", "MatchAny"):
        raise OperatorError(f"{where}.issuer.audienceMatchPolicy: Invalid value: {policy!r}: must be MatchAny or empty")
    if len(audiences) > 1 and policy != "MatchAny":
        raise OperatorError(
            f"{where}.issuer.audienceMatchPolicy: Invalid value: {policy!r}:"
            " audienceMatchPolicy must be MatchAny for multiple audiences"
        )
    egress = issuer.get("egressSelectorType") or ""  # without an egress selector every connection is direct
    if egress and egress not in _EGRESS:
        text = f"must be one of {', '.join(_EGRESS)}"
        raise OperatorError(f"{where}.issuer.egressSelectorType: Invalid value: {egress!r}: {text}")
    required, claim_rules = _claim_rules(where, given.get("claimValidationRules") or ())
    username = _mapping(where, "username", mappings.get("username") or {}, prefixed=True)
    groups = _mapping(where, "groups", mappings.get("groups") or {}, prefixed=True, optional=True)
    uid = _mapping(where, "uid", mappings.get("uid") or {}, prefixed=False, optional=True)
    made = Issuer(
        str(issuer.get("url") or ""),
        audiences,
        username[0],
        username[1],
        groups[0],
        groups[1],
        uid[0],
        required,
        ALGORITHMS,
        str(issuer.get("certificateAuthority") or ""),
        str(issuer.get("discoveryURL") or ""),
        username[2],
        groups[2],
        uid[2],
        _extra(where, mappings.get("extra") or ()),
        claim_rules,
        _user_rules(where, given.get("userValidationRules") or ()),
    )
    if made.discovery and made.discovery.rstrip("/") == made.url.rstrip("/"):
        text = "discoveryURL must be different from URL"
        raise OperatorError(f"{where}.issuer.discoveryURL: Invalid value: {made.discovery!r}: {text}")
    Mapper(checked(made, where), where)
    return made


def _mapping(where: str, name: str, given: Mapping[str, Any], *, prefixed: bool, optional: bool = False) -> tuple[str, str, str]:
    """Claim, prefix and expression of one mapping."""
    path = f"{where}.claimMappings.{name}"
    claim, prefix, expression = str(given.get("claim") or ""), given.get("prefix"), str(given.get("expression") or "")
    if claim and expression:
        raise OperatorError(f"{path}: Invalid value: claim and expression can't both be set")
    if not claim and not expression:
        if optional and not prefix:
            return "", "", ""
        raise OperatorError(f"{path}: Required value: claim or expression is required")
    if expression and prefix is not None:
        raise OperatorError(f"{path}.prefix: Invalid value: prefix can't be set when expression is set")
    if claim and prefixed and prefix is None:
        text = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        raise OperatorError(f"{path}.prefix: Required value: {text}")
    return claim, str(prefix or ""), expression


def _claim_rules(where: str, given: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    required: dict[str, str] = {}
    rules: list[tuple[str, str]] = []
    for number, rule in enumerate(given):
        path = f"{where}.claimValidationRules[{number}]"
        claim, expression = str(rule.get("claim") or ""), str(rule.get("expression") or "")
        if claim and expression:
            raise OperatorError(f"{path}: Invalid value: claim and expression can't both be set")
        if not claim and not expression:
            raise OperatorError(f"{path}: Required value: claim or expression is required")
        if claim:
            if rule.get("message"):
                raise OperatorError(f"{path}.message: Invalid value: message can't be set when claim is set")
            if claim in required:
                raise OperatorError(f"{path}.claim: Duplicate value: {claim!r}")
            required[claim] = str(rule.get("requiredValue") or "")
        else:
            if rule.get("requiredValue"):
                raise OperatorError(f"{path}.requiredValue: Invalid value: requiredValue can't be set when expression is set")
            rules.append((expression, str(rule.get("message") or "")))
    return required, _distinct(f"{where}.claimValidationRules", rules)


def _user_rules(where: str, given: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    rules = []
    for number, rule in enumerate(given):
        expression = str(rule.get("expression") or "")
        if not expression:
            raise OperatorError(f"{where}.userValidationRules[{number}].expression: Required value: expression is required")
        rules.append((expression, str(rule.get("message") or "")))
    return _distinct(f"{where}.userValidationRules", rules)


def _distinct(where: str, rules: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    seen: set[str] = set()
    for expression, _ in rules:
        if expression in seen:
            raise OperatorError(f"{where}.expression: Duplicate value: {expression!r}")
        seen.add(expression)
    return tuple(rules)


def _extra(where: str, given: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for number, each in enumerate(given):
        path = f"{where}.claimMappings.extra[{number}]"
        key, expression = str(each.get("key") or ""), str(each.get("valueExpression") or "")
        if not key or not expression:
            raise OperatorError(f"{path}.{'valueExpression' if key else 'key'}: Required value")
        if key != key.lower():
            raise OperatorError(f"{path}.key: Invalid value: {key!r}: must be lowercase")
        if not _KEY.fullmatch(key):
            raise OperatorError(f'{path}.key: Invalid value: {key!r}: must be a domain-prefixed path (such as "acme.io/foo")')
        if _RESERVED.search(key.partition("/")[0]):
            raise OperatorError(f"{path}.key: Invalid value: {key!r}: k8s.io, kubernetes.io and their subdomains are reserved")
        if key in found:
            raise OperatorError(f"{path}.key: Duplicate value: {key!r}")
        found[key] = expression
    return tuple(found.items())
