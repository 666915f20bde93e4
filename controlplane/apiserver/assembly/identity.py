"""Authenticators and authorizers from the settings, in the order in which they are asked."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from component.dynamic_certificates import CaBundle
from component.errors import OperatorError
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.authentication.anonymous import Anonymous
from controlplane.apiserver.authentication.bootstrap_token import BootstrapTokens
from controlplane.apiserver.authentication.interface import Authenticator
from controlplane.apiserver.authentication.keys import VerificationKey, load_private_key, load_public_keys
from controlplane.apiserver.authentication.oidc import IDTokens
from controlplane.apiserver.authentication.request_header import HeaderNames, RequestHeaders
from controlplane.apiserver.authentication.service_account import ServiceAccountTokens
from controlplane.apiserver.authentication.static_token import StaticTokens
from controlplane.apiserver.authentication.token_issuer import TokenIssuer
from controlplane.apiserver.authentication.union import Authenticated, FirstThen, UnionAuthenticator
from controlplane.apiserver.authentication.x509 import ClientCertificates
from controlplane.apiserver.authorization.abac import ABACAuthorizer
from controlplane.apiserver.authorization.always import SUPERUSERS, AlwaysAllow, AlwaysDeny, PrivilegedGroups
from controlplane.apiserver.authorization.bootstrap_policy import NODE
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.authorization.node import NodeAuthorizer, PodsOn
from controlplane.apiserver.authorization.rbac import RBACAuthorizer, RoleSource
from controlplane.apiserver.authorization.union import UnionAuthorizer
from controlplane.apiserver.config import Identity


@dataclass(frozen=True, slots=True)
class Believed:
    """Who can be recognised, and by what."""

    authenticator: Authenticator  # everything, anonymous included
    tokens: Authenticator  # bearer tokens alone, for TokenReview
    service_accounts: ServiceAccountTokens | None
    issuer: TokenIssuer | None
    keys: list[VerificationKey]
    audiences: tuple[str, ...]
    bundles: tuple[CaBundle, ...] = ()  # the files of client CAs, to be watched


def believed(config: Identity, lookup: Lookup, webhook: Authenticator | None = None) -> Believed:
    """Raises OperatorError naming the flag and the file that cannot be used."""
    issuer = None
    if config.service_account_signing_key is not None:
        with _reading("--service-account-signing-key-file", config.service_account_signing_key):
            issuer = TokenIssuer(load_private_key(config.service_account_signing_key), config.service_account_issuers[0])
    keys: list[VerificationKey] = []
    for path in config.service_account_keys:
        with _reading("--service-account-key-file", path):
            keys += load_public_keys(path)
    if issuer is not None and all(key.key_id != issuer.verification.key_id for key in keys):
        keys.append(issuer.verification)
    audiences = config.api_audiences or config.service_account_issuers
    accounts = ServiceAccountTokens(keys, config.service_account_issuers, audiences, lookup) if keys else None
    bearer: list[Authenticator] = []
    if config.token_file is not None:
        with _reading("--token-auth-file", config.token_file):
            bearer.append(StaticTokens.load(config.token_file))
    if config.bootstrap_tokens:
        bearer.append(BootstrapTokens(lookup))
    if accounts is not None:
        bearer.append(accounts)
    for known in config.jwt_issuers:
        if accounts is not None and known.url in config.service_account_issuers:
            raise OperatorError(
                f"issuer {known.url}: the same as --service-account-issuer; tokens of both could not be told apart"
            )
        bearer.append(IDTokens(known))
    if webhook is not None:
        bearer.append(webhook)
    tokens = Authenticated(UnionAuthenticator(bearer))
    first: list[Authenticator] = []
    bundles: list[CaBundle] = []
    proxy = config.front_proxy
    if proxy.client_ca is not None:
        names = HeaderNames(proxy.user_headers, proxy.group_headers, proxy.extra_prefixes)
        with _reading("--requestheader-client-ca-file", proxy.client_ca):
            bundles.append(CaBundle(proxy.client_ca))
            first.append(RequestHeaders(bundles[-1].current, proxy.allowed_names, names))
    if config.client_ca is not None:
        with _reading("--client-ca-file", config.client_ca):
            bundles.append(CaBundle(config.client_ca))
            first.append(ClientCertificates(bundles[-1].current))
    everything: Authenticator = Authenticated(UnionAuthenticator([*first, *bearer]))
    if config.anonymous:
        everything = FirstThen(everything, Anonymous())
    return Believed(everything, tokens, accounts, issuer, keys, tuple(audiences), tuple(bundles))


@contextlib.contextmanager
def _reading(flag: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error).removeprefix(f"{path}").lstrip(" ,:")
        if reason.startswith("Unable to load PEM"):
            reason = "holds nothing in PEM form, or is damaged"
        raise OperatorError(f"{flag} {path}: {reason}") from None


def authorizer_for(
    config: Identity, roles: RoleSource, pods_on: PodsOn, lookup: Lookup, webhook: Authorizer | None = None
) -> UnionAuthorizer:
    """Administrators, then the modes in their order. Raises ValueError for an unknown mode."""
    members: list[Authorizer] = [PrivilegedGroups(SUPERUSERS)]
    for mode in config.authorization_modes:
        if mode == "RBAC":
            members.append(RBACAuthorizer(roles))
        elif mode == "Node":
            members.append(NodeAuthorizer(pods_on, lookup, NODE))
        elif mode == "ABAC" and config.abac_policy is not None:
            with _reading("--authorization-policy-file", config.abac_policy):
                members.append(ABACAuthorizer.load(config.abac_policy))
        elif mode == "Webhook" and webhook is not None:
            members.append(webhook)
        elif mode == "AlwaysAllow":
            members.append(AlwaysAllow())
        elif mode == "AlwaysDeny":
            members.append(AlwaysDeny())
        else:
            raise ValueError(f"--authorization-mode={mode}: choose Node, RBAC, ABAC, Webhook, AlwaysAllow or AlwaysDeny")
    return UnionAuthorizer(members)
