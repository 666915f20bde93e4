"""Whose ID tokens are believed and what their claims mean, as one value. Pure.

Made of ``--oidc-*`` flags, or of an AuthenticationConfiguration by ``configuration``; ``claims`` does what it says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    # CEL, instead of claims: see ``claims``. Rules are pairs of expression and message, extra of key and expression.
    username_expression: str = ""
    groups_expression: str = ""
    uid_expression: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    claim_rules: tuple[tuple[str, str], ...] = ()
    user_rules: tuple[tuple[str, str], ...] = ()

    @property
    def uses_expressions(self) -> bool:
        single = self.username_expression or self.groups_expression or self.uid_expression
        return bool(single or self.extra or self.claim_rules or self.user_rules)

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
    if not issuer.username_claim and not issuer.username_expression:
        raise OperatorError(f"{where}: a claim for the username is needed")
    if unknown := sorted(set(issuer.algorithms) - set(ALGORITHMS)):
        raise OperatorError(f"{where}: {unknown[0]!r} is no signing algorithm; choose among {', '.join(ALGORITHMS)}")
    return issuer


def default_prefix(url: str, claim: str, prefix: str) -> str:
    """As ``--oidc-username-prefix`` has it: ``-`` is none, and without one any claim but the e-mail gets the issuer's URL."""
    if prefix == "-":
        return ""
    return prefix or ("" if claim == "email" else f"{url}#")
