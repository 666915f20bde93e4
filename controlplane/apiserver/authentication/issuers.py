"""Whose ID tokens are believed and what their claims mean: from ``--oidc-*`` flags or an AuthenticationConfiguration. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from component.errors import OperatorError

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")


@dataclass(frozen=True, slots=True)
class Issuer:
    """One OpenID provider. Empty claims are not used; ``authority`` is PEM, empty for the system's."""

    url: str
    audiences: tuple[str, ...]
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    uid_claim: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ("RS256",)
    authority: str = ""
    discovery: str = ""  # where to ask, when that is not below the issuer's own URL

    @property
    def discovery_url(self) -> str:
        return self.discovery or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


def checked(issuer: Issuer, where: str) -> Issuer:
    """Raises OperatorError for an issuer that nobody could trust."""
    for url in (issuer.url, issuer.discovery_url):
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.netloc or parts.username or parts.query or parts.fragment:
            raise OperatorError(f"{where}: {url!r} must be an https URL without user, query and fragment")
    if not issuer.audiences:
        raise OperatorError(f"{where}: at least one audience is needed (--oidc-client-id)")
    if not issuer.username_claim:
        raise OperatorError(f"{where}: a claim for the username is needed")
    if unknown := sorted(set(issuer.algorithms) - set(ALGORITHMS)):
        raise OperatorError(f"{where}: {unknown[0]!r} is no signing algorithm; choose among {', '.join(ALGORITHMS)}")
    return issuer


def default_prefix(url: str, claim: str, prefix: str) -> str:
    """As ``--oidc-username-prefix`` has it: ``-`` is none, and without one any claim but the e-mail gets the issuer's URL."""
    if prefix == "-":
        return ""
    return prefix or ("" if claim == "email" else f"{url}#")


def issuers_from(config: Mapping[str, Any]) -> tuple[Issuer, ...]:
    """The ``jwt`` part of an AuthenticationConfiguration. Raises OperatorError."""
    if config.get("kind") != "AuthenticationConfiguration" or not str(config.get("apiVersion")).startswith(
        "apiserver.config.k8s.io/"
    ):
        raise OperatorError("--authentication-config: must be an AuthenticationConfiguration of apiserver.config.k8s.io/v1")
    if (config.get("anonymous") or {}).get("conditions"):
        raise OperatorError("--authentication-config: anonymous.conditions are not supported; say enabled: true or false")
    found = tuple(_issuer(f"--authentication-config: jwt[{number}]", each) for number, each in enumerate(config.get("jwt") or ()))
    urls = [each.url for each in found]
    if len(set(urls)) < len(urls):
        raise OperatorError("--authentication-config: every issuer may appear once")
    return found


def _issuer(where: str, given: Mapping[str, Any]) -> Issuer:
    issuer, mappings = given.get("issuer") or {}, given.get("claimMappings") or {}
    rules = given.get("claimValidationRules") or ()
    users = given.get("userValidationRules") or ()
    expressions = [each.get("expression") for each in (*mappings.values(), *rules) if isinstance(each, Mapping)]
    if any(expressions) or users or mappings.get("extra"):
        raise OperatorError(f"{where}: expressions (CEL) are not supported; use claim, prefix and requiredValue")
    name, groups, uid = (mappings.get(key) or {} for key in ("username", "groups", "uid"))
    if name.get("prefix") is None:
        raise OperatorError(f"{where}.claimMappings.username.prefix: required; it may be empty")
    made = Issuer(
        str(issuer.get("url") or ""),
        tuple(issuer.get("audiences") or ()),
        str(name.get("claim") or ""),
        str(name["prefix"]),
        str(groups.get("claim") or ""),
        str(groups.get("prefix") or ""),
        str(uid.get("claim") or ""),
        {str(each.get("claim")): str(each.get("requiredValue") or "") for each in rules},
        ALGORITHMS,
        str(issuer.get("certificateAuthority") or ""),
        str(issuer.get("discoveryURL") or ""),
    )
    return checked(made, where)
