"""Signs service account tokens for ``endpoints.token`` (TokenRequest). Claims as upstream writes them."""

import uuid
from collections.abc import Sequence
from typing import Any

from controlplane.apiserver.authentication.keys import PrivateKey, VerificationKey, verification_key
from controlplane.apiserver.authentication.service_account import PRIVATE_CLAIM


class TokenIssuer:
    """One signing key and the issuer's name."""

    def __init__(self, key: PrivateKey, issuer: str) -> None:
        self._key, self.issuer = key, issuer
        self.verification: VerificationKey = verification_key(key.public_key())

    def issue(
        self, account: dict[str, Any], audiences: Sequence[str], now: int, seconds: int, bound: dict[str, dict[str, Any]]
    ) -> str:
        """A token for ``account`` from ``now`` for ``seconds``; ``bound`` maps pod, secret or node to name and uid."""
        import jwt

        meta = account["metadata"]
        claims: dict[str, Any] = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            PRIVATE_CLAIM: {
                "namespace": meta["namespace"],
                **{claim: bound[claim] for claim in ("node", "pod", "secret") if claim in bound},
                "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        headers = {"kid": self.verification.key_id}
        return jwt.encode(claims, self._key, algorithm=self.verification.algorithm, headers=headers)
