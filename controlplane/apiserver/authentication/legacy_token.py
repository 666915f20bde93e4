"""Service account tokens of the old kind: without an end, kept in a Secret of type ``kubernetes.io/service-account-token``.

They count while the Secret holds the very token and its account exists. Each day's first use is noted on the Secret, so that
tokens nobody uses can be found and cleaned up. Upstream's ``pkg/serviceaccount/legacy.go``.
"""

import base64
import hmac
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from component import logs
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, Remarks, UserInfo
from controlplane.apiserver.authentication.keys import VerificationKey
from controlplane.apiserver.authentication.service_account import Lookup
from controlplane.apiserver.authentication.token_uses import AUTO, INVALID_AUTO, LEGACY, MANUAL, TokenUses

ISSUER = "kubernetes/serviceaccount"
LAST_USED, INVALID_SINCE = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
_CLAIM = "kubernetes.io/serviceaccount/"
_AUDIT = "authentication.k8s.io/"
_USE_OTHERS = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens."
)

Note = Callable[[str, str, str], Awaitable[None]]
"""``await note(namespace, secret, day)``: writes the day of the last use onto the Secret."""
_log = logs.get(__name__)


class LegacyTokens:
    def __init__(
        self, keys: Sequence[VerificationKey], lookup: Lookup, note: Note | None = None, uses: TokenUses | None = None
    ) -> None:
        self._keys, self._lookup, self._note, self._counts = tuple(keys), lookup, note, (uses or TokenUses()).counts

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        token = credentials.bearer_token
        if token is None or token.count(".") != 2:
            return None
        claims = self._claims(token)
        return await self._user(token, claims, credentials.remarks) if claims is not None else None

    def _claims(self, token: str) -> dict[str, Any] | None:
        """None for tokens of other issuers."""
        import jwt

        try:
            if jwt.decode(token, options={"verify_signature": False}).get("iss") != ISSUER:
                return None
        except jwt.InvalidTokenError:
            return None
        for known in self._keys:
            try:
                options: Any = {"require": ["iss", "sub"], "verify_aud": False}
                claims: dict[str, Any] = jwt.decode(
                    token, known.key, algorithms=[known.algorithm], issuer=ISSUER, options=options
                )
                return claims
            except jwt.InvalidTokenError:
                continue
        raise AuthenticationFailed("no key verifies the service account token")

    async def _user(self, token: str, claims: dict[str, Any], remarks: Remarks) -> UserInfo:
        namespace, secret_name, name, uid = (
            str(claims.get(_CLAIM + key) or "")
            for key in ("namespace", "secret.name", "service-account.name", "service-account.uid")
        )
        if claims["sub"] != f"system:serviceaccount:{namespace}:{name}" or not namespace or not name or not secret_name:
            raise AuthenticationFailed("service account token names no account")
        secret = await self._lookup("secrets", namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise AuthenticationFailed("service account token has been invalidated")
        if not hmac.compare_digest(_held(secret), token.encode()):
            raise AuthenticationFailed("service account token does not match the server's copy")
        account = await self._lookup("serviceaccounts", namespace, name)
        if account is None or account["metadata"].get("deletionTimestamp") or account["metadata"].get("uid") != uid:
            raise AuthenticationFailed("service account has been deleted")
        labels = secret["metadata"].get("labels") or {}
        await self._noted(namespace, secret_name, labels)
        if labels.get(INVALID_SINCE):
            remarks.annotations[f"{_AUDIT}legacy-token-invalidated"] = f"{secret_name}/{namespace}"
            self._counts[INVALID_AUTO] += 1
            raise AuthenticationFailed(
                f"the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked invalid. "
                "Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the "
                f"'{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            )
        self._remark(secret_name, account, remarks)
        self._counts[LEGACY] += 1
        remarks.annotations[f"{_AUDIT}legacy-token"] = claims["sub"]
        return UserInfo(claims["sub"], uid, ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"))

    def _remark(self, secret: str, account: dict[str, Any], remarks: Remarks) -> None:
        """Secrets that the account lists were made for it by releases before v1.24; the others somebody wanted."""
        if any(each.get("name") == secret for each in account.get("secrets") or ()):
            remarks.warnings.append(_USE_OTHERS)
            remarks.annotations[f"{_AUDIT}legacy-token-autogenerated-secret"] = secret
            self._counts[AUTO] += 1
        else:
            remarks.annotations[f"{_AUDIT}legacy-token-manual-secret"] = secret
            self._counts[MANUAL] += 1

    async def _noted(self, namespace: str, secret: str, labels: dict[str, str]) -> None:
        today = datetime.now(UTC).date().isoformat()
        if self._note is None or labels.get(LAST_USED, "") >= today:
            return
        try:
            await self._note(namespace, secret, today)
        except Exception as error:  # a note that cannot be written keeps nobody out
            _log.warning("The use of a legacy token could not be noted", namespace=namespace, secret=secret, err=error)


def _held(secret: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "", validate=True)
    except ValueError:
        return b""
