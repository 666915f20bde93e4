"""Authenticators from the settings, in the order in which they are asked. Authorizers: see ``authorizers``."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from component.dynamic_certificates import CaBundle
from component.errors import OperatorError
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.authentication import configuration
from controlplane.apiserver.authentication.anonymous import Anonymous
from controlplane.apiserver.authentication.bootstrap_token import BootstrapTokens
from controlplane.apiserver.authentication.interface import Authenticator
from controlplane.apiserver.authentication.keys import VerificationKey, load_private_key, load_public_keys
from controlplane.apiserver.authentication.legacy_token import LegacyTokens, Note
from controlplane.apiserver.authentication.oidc import Issuers
from controlplane.apiserver.authentication.oidc_metrics import OIDCMetrics
from controlplane.apiserver.authentication.request_header import HeaderNames, RequestHeaders
from controlplane.apiserver.authentication.service_account import ServiceAccountTokens
from controlplane.apiserver.authentication.static_token import StaticTokens
from controlplane.apiserver.authentication.token_issuer import TokenIssuer
from controlplane.apiserver.authentication.token_uses import TokenUses
from controlplane.apiserver.authentication.union import Authenticated, FirstThen, UnionAuthenticator
from controlplane.apiserver.authentication.x509 import ClientCertificates
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
    bundles: tuple[CaBundle, ...]  # the files of client CAs, to be watched
    issuers: Issuers
    anonymous: Anonymous
    uses: TokenUses

    async def reconfigure(self, config: Identity, data: bytes) -> None:
        """Take up a changed AuthenticationConfiguration. Raises OperatorError and changes nothing when it cannot be used."""
        read = configuration.read(data, config.service_account_issuers)
        self.issuers.replace(read.issuers)
        self.anonymous.enabled = config.anonymous_flag if read.anonymous is None else read.anonymous
        self.anonymous.paths = read.paths


def believed(
    config: Identity,
    lookup: Lookup,
    webhook: Authenticator | None = None,
    note: Note | None = None,
    server: Callable[[], str] = str,
    features: Gates = DEFAULTS,
) -> Believed:
    """``server`` gives the name that metrics show hashed. Raises OperatorError naming the flag and the file that is of no use."""
    issuer = None
    if config.service_account_signing_key is not None:
        with reading("--service-account-signing-key-file", config.service_account_signing_key):
            key = load_private_key(config.service_account_signing_key)
            extends = config.extend_tokens
            issuer = TokenIssuer(key, config.service_account_issuers[0], config.longest_token, extends=extends)
    keys: list[VerificationKey] = []
    for path in config.service_account_keys:
        with reading("--service-account-key-file", path):
            keys += load_public_keys(path)
    if issuer is not None and all(key.key_id != issuer.verification.key_id for key in keys):
        keys.append(issuer.verification)
    audiences = config.api_audiences or config.service_account_issuers
    uses = TokenUses()
    accounts = ServiceAccountTokens(keys, config.service_account_issuers, audiences, lookup, uses) if keys else None
    bearer: list[Authenticator] = []
    if config.token_file is not None:
        with reading("--token-auth-file", config.token_file):
            bearer.append(StaticTokens.load(config.token_file))
    if config.bootstrap_tokens:
        bearer.append(BootstrapTokens(lookup))
    if accounts is not None:
        bearer += [accounts, LegacyTokens(keys, lookup, note, uses)]
    for known in config.jwt_issuers:
        if accounts is not None and known.url in config.service_account_issuers:
            raise OperatorError(
                f"issuer {known.url}: the same as --service-account-issuer; tokens of both could not be told apart"
            )
    issuers = Issuers(config.jwt_issuers, OIDCMetrics(server))
    bearer.append(issuers)
    if webhook is not None:
        bearer.append(webhook)
    tokens = Authenticated(UnionAuthenticator(bearer))
    first: list[Authenticator] = []
    bundles: list[CaBundle] = []
    proxy = config.front_proxy
    if proxy.client_ca is not None:
        uids = proxy.uid_headers if features.enabled("RemoteRequestHeaderUID") else ()
        names = HeaderNames(proxy.user_headers, proxy.group_headers, proxy.extra_prefixes, uids)
        with reading("--requestheader-client-ca-file", proxy.client_ca):
            bundles.append(CaBundle(proxy.client_ca))
            first.append(RequestHeaders(bundles[-1].current, proxy.allowed_names, names))
    if config.client_ca is not None:
        with reading("--client-ca-file", config.client_ca):
            bundles.append(CaBundle(config.client_ca))
            with_uid = features.enabled("AllowParsingUserUIDFromCertAuth")
            first.append(ClientCertificates(bundles[-1].current, with_uid=with_uid))
    everything: Authenticator = Authenticated(UnionAuthenticator([*first, *bearer]))
    anonymous = Anonymous(config.anonymous, config.anonymous_paths)
    everything = FirstThen(everything, anonymous)
    return Believed(everything, tokens, accounts, issuer, keys, tuple(audiences), tuple(bundles), issuers, anonymous, uses)


@contextlib.contextmanager
def reading(flag: str, path: Path) -> Iterator[None]:
    """Turns what reading a file can raise into an OperatorError that names flag and file."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error).removeprefix(f"{path}").lstrip(" ,:")
        if reason.startswith("Unable to load PEM"):
            reason = "holds nothing in PEM form, or is damaged"
        raise OperatorError(f"{flag} {path}: {reason}") from None
