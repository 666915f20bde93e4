"""Bootstrap tokens, with which new nodes join: ``id.secret``, kept in Secrets ``bootstrap-token-<id>`` of kube-system."""

import base64
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from apimachinery.times import parse_time
from controlplane.apiserver.authentication.interface import Credentials, UserInfo
from controlplane.apiserver.authentication.service_account import Lookup

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_NAMESPACE, _TYPE = "kube-system", "bootstrap.kubernetes.io/token"
_GROUP = "system:bootstrappers"
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    def __init__(self, lookup: Lookup, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lookup, self._now = lookup, now

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        match = _TOKEN.fullmatch(credentials.bearer_token or "")
        if match is None:
            return None
        secret = await self._lookup("secrets", _NAMESPACE, f"bootstrap-token-{match[1]}")
        if secret is None or secret.get("type") != _TYPE or secret["metadata"].get("deletionTimestamp"):
            return None
        data = _decoded(secret)
        genuine = hmac.compare_digest(data.get("token-secret", "").encode(), match[2].encode())
        if not genuine or data.get("token-id") != match[1] or data.get("usage-bootstrap-authentication") != "true":
            return None
        if self._expired(data.get("expiration", "")):
            return None
        extra = sorted({name for name in data.get("auth-extra-groups", "").split(",") if name})
        if not all(map(_EXTRA_GROUP.fullmatch, extra)):  # half of what was meant is not what was meant
            return None
        return UserInfo(f"system:bootstrap:{match[1]}", groups=(_GROUP, *extra))

    def _expired(self, expiration: str) -> bool:
        if not expiration:
            return False
        try:
            return parse_time(expiration) < self._now()
        except ValueError:
            return True


def _decoded(secret: dict[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value).decode()
        except ValueError:
            continue
    return found
