"""The front proxy: a proxy with a certificate of its own CA says by headers for whom it asks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo
from controlplane.apiserver.authentication.x509 import ClientCertificates, user_of


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """Which headers carry the user, its groups, (as prefixes) its extra values, and its uid."""

    users: Sequence[str] = ("X-Remote-User",)
    groups: Sequence[str] = ("X-Remote-Group",)
    extra_prefixes: Sequence[str] = ("X-Remote-Extra-",)
    uids: Sequence[str] = ()


class RequestHeaders:
    """``allowed_names`` are the common names of proxies that are believed; empty believes every certificate of the CA."""

    def __init__(self, ca_bundle: Callable[[], bytes], allowed_names: Sequence[str], names: HeaderNames) -> None:
        self._certificates = ClientCertificates(ca_bundle)
        self._allowed, self._names = frozenset(allowed_names), names

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        headers = credentials.headers
        name = next((headers[header] for header in self._names.users if headers.get(header)), "")
        if not name or credentials.peer_certificate is None:
            return None
        proxy = user_of(self._certificates.verified(credentials.peer_certificate, credentials.intermediates)).name
        if self._allowed and proxy not in self._allowed:
            raise AuthenticationFailed(f"x509: subject with cn={proxy} is not in the allowed list")
        groups = [value for key, value in headers.items() if key.lower() in {one.lower() for one in self._names.groups}]
        uid = next((headers[header] for header in self._names.uids if headers.get(header)), "")
        return UserInfo(name, uid, tuple(groups), self._extra(credentials))

    def _extra(self, credentials: Credentials) -> dict[str, list[str]]:
        extra: dict[str, list[str]] = {}
        for key, value in credentials.headers.items():
            for prefix in self._names.extra_prefixes:
                if key.lower().startswith(prefix.lower()):
                    extra.setdefault(unquote(key[len(prefix) :].lower()), []).append(value)
        return extra
