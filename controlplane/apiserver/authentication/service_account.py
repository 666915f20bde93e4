"""Bearer tokens of service accounts: JWTs signed by us, valid while the account and the object they are bound to exist.

A signature that was good stays good until the token expires, so what it proved is remembered; whether account and bound object
still exist is asked every time.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from apimachinery.times import parse_time
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, Remarks, UserInfo
from controlplane.apiserver.authentication.keys import VerificationKey
from controlplane.apiserver.authentication.token_uses import STALE, VALID, TokenUses

Lookup = Callable[[str, str, str], Awaitable[dict[str, Any] | None]]
"""``await lookup("pods", namespace, name)``: the object, or None when there is none."""

PRIVATE_CLAIM = "kubernetes.io"
_REMEMBERED = 4096
LEEWAY_SECONDS = 60.0  # that a token outlives the end of what it is bound to, while that still exists


class ServiceAccountTokens:
    """``audiences`` of which a token must name one; ``issuers`` of which it must come from one."""

    def __init__(
        self,
        keys: Sequence[VerificationKey],
        issuers: Sequence[str],
        audiences: Sequence[str],
        lookup: Lookup,
        uses: TokenUses | None = None,
    ) -> None:
        self._uses = uses or TokenUses()
        self._keys = {known.key_id: known for known in keys}
        self._issuers, self._audiences, self._lookup = tuple(issuers), tuple(audiences), lookup
        self._proven: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.bearer_token is None:
            return None
        found = await self.review(credentials.bearer_token, self._audiences, credentials.remarks)
        return found[0] if found else None

    async def review(self, token: str, audiences: Sequence[str], remarks: Remarks) -> tuple[UserInfo, list[str]] | None:
        """The user and which of ``audiences`` the token is for; None when it is no token of ours."""
        if token.count(".") != 2:
            return None
        remembered = hashlib.sha256(repr((token, *audiences)).encode()).digest()  # no audience can look like two
        claims = self._proven.get(remembered)
        if claims is None or claims["exp"] <= time.time():
            claims = self._proof(token, audiences)
            if claims is None:
                return None
            self._proven[remembered] = claims
            if len(self._proven) > _REMEMBERED:
                self._proven.popitem(last=False)
        user = await self._user(claims)
        self._note_age(claims, remarks)
        named = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        return user, [audience for audience in audiences if audience in named]

    def _note_age(self, claims: dict[str, Any], remarks: Remarks) -> None:
        """A token whose life was extended should have been renewed long before its end: who still uses it is told of."""
        warn_after = (claims.get(PRIVATE_CLAIM) or {}).get("warnafter")
        if not warn_after:
            return
        late = int(time.time()) - int(warn_after)
        self._uses.counts[STALE if late > 0 else VALID] += 1
        if late > 0:
            text = f"subject: {claims['sub']}, seconds after warning threshold: {late}"
            remarks.annotations["authentication.k8s.io/stale-token"] = text

    def _proof(self, token: str, audiences: Sequence[str]) -> dict[str, Any] | None:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            return None
        if claimed.get("iss") not in self._issuers:
            return None
        return self._verified(token, header, audiences)

    def _verified(self, token: str, header: dict[str, Any], audiences: Sequence[str]) -> dict[str, Any]:
        import jwt

        known = self._keys.get(str(header.get("kid")))
        candidates = [known] if known else list(self._keys.values())
        why = "no key verifies the service account token"
        for candidate in candidates:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    candidate.key,
                    algorithms=[candidate.algorithm],
                    audience=list(audiences),
                    issuer=list(self._issuers),
                    options={"require": ["exp", "iss", "sub", "aud"]},
                )
                return claims
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                why = "service account token has expired"
            except jwt.InvalidAudienceError:
                why = "token audiences do not match"
            except jwt.InvalidTokenError:
                why = "invalid service account token"
        raise AuthenticationFailed(why)

    async def _user(self, claims: dict[str, Any]) -> UserInfo:
        private = claims.get(PRIVATE_CLAIM) or {}
        namespace = str(private.get("namespace") or "")
        account = private.get("serviceaccount") or {}
        name, uid = str(account.get("name") or ""), str(account.get("uid") or "")
        if claims.get("sub") != f"system:serviceaccount:{namespace}:{name}" or not namespace or not name:
            raise AuthenticationFailed("service account token names no account")
        await self._must_exist("serviceaccounts", namespace, name, uid)
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]} if claims.get("jti") else {}
        for resource, claim in (("pods", "pod"), ("secrets", "secret"), ("nodes", "node")):
            bound = private.get(claim)
            if not bound:
                continue
            if claim != "node" or not private.get("pod"):  # the node of a pod is information, not a condition
                where = "" if claim == "node" else namespace
                await self._must_exist(resource, where, str(bound.get("name")), str(bound.get("uid")))
            if claim != "secret":
                extra[f"authentication.kubernetes.io/{claim}-name"] = [str(bound.get("name"))]
                if bound.get("uid"):
                    extra[f"authentication.kubernetes.io/{claim}-uid"] = [str(bound.get("uid"))]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return UserInfo(f"system:serviceaccount:{namespace}:{name}", uid, groups, extra)

    async def _must_exist(self, resource: str, namespace: str, name: str, uid: str) -> None:
        found = await self._lookup(resource, namespace, name)
        if found is None or found["metadata"].get("uid") != uid:
            raise AuthenticationFailed(f"service account token is bound to {resource} that no longer exist")
        deleted = found["metadata"].get("deletionTimestamp")
        if deleted and parse_time(deleted).timestamp() + LEEWAY_SECONDS < time.time():
            # a finalizer may hold it for ever; upstream leaves a minute for who has to finish
            raise AuthenticationFailed(f"service account token is bound to {resource} that have been deleted")
