"""The contract of authenticators. ``filters.authenticate`` calls a union of them; a union is an authenticator too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who a request speaks for. ``extra`` maps lower-case keys to lists of values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
SERVER = UserInfo("system:apiserver", groups=("system:masters", "system:authenticated"))
"""The server itself, where it writes on its own account."""
ALL_AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Remarks:
    """What authenticators have to say of credentials, whether they accept them or not: for the audit log, and for the client."""

    annotations: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.annotations or self.warnings)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request and its connection carry that can prove an identity."""

    peer_certificate: bytes | None = None  # DER, already verified against a client CA by TLS or not: see x509.py
    bearer_token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    connection: dict[str, Any] = field(default_factory=dict)  # a cache that lives as long as the connection
    path: str = ""  # of the request
    intermediates: tuple[bytes, ...] = ()  # DER, what the client sent with its certificate
    remarks: Remarks = field(default_factory=Remarks)


class AuthenticationFailed(Exception):  # noqa: N818 - the word of the contract
    """The request carries credentials of this kind and they are bad. The message never quotes them."""


class Authenticator(Protocol):
    """Recognises one kind of credential."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """The user, or None when the request carries nothing this authenticator understands.

        Raises AuthenticationFailed for credentials that it does understand and refuses.
        """
        ...
