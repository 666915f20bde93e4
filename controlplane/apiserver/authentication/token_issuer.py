"""Signs service account tokens for ``endpoints.token`` (TokenRequest). Claims as upstream writes them."""

import uuid
from collections.abc import Sequence
from typing import Any

from controlplane.apiserver.authentication.keys import PrivateKey, VerificationKey, verification_key
from controlplane.apiserver.authentication.service_account import PRIVATE_CLAIM


class TokenIssuer:
    """One signing key and the issuer's name.

    ``longest`` is how many seconds a token may last at most, 0 for no bound; ``extends`` whether tokens in pods outlast what was
    asked for, for the sake of programs that read theirs once.
    """

    def __init__(self, key: PrivateKey, issuer: str, longest: int = 0, *, extends: bool = True) -> None:
        self._key, self.issuer, self.longest, self.extends = key, issuer, longest, extends
        self.verification: VerificationKey = verification_key(key.public_key())

    def issue(
        self,
        account: dict[str, Any],
        audiences: Sequence[str],
        now: int,
        seconds: int,
        bound: dict[str, dict[str, Any]],
        warn_after: int = 0,
    ) -> str:
        """A token for ``account`` from ``now`` for ``seconds``; ``bound`` maps pod, secret or node to name and uid.

        One that was extended says after how many seconds it should have been renewed.
        """
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
                **({"warnafter": now + warn_after} if warn_after else {}),
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        headers = {"kid": self.verification.key_id}
        return jwt.encode(claims, self._key, algorithm=self.verification.algorithm, headers=headers)
