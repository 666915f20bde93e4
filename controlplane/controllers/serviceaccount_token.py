"""serviceaccount_token: fills Secrets of type ``kubernetes.io/service-account-token`` and removes them with their account.

Nobody makes such Secrets by himself any more (v1.24); who does so by hand gets a token without an end. Needs
``--service-account-private-key-file``, whose key the API server believes.
"""

import base64
import hashlib
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, key_of, name_of, namespace_of, uid_of
from apimachinery.resources import SECRETS, SERVICE_ACCOUNTS
from controlplane.controllers.controller import Environment, Loop

TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_BY_ACCOUNT = "account"


class Signer:
    """Makes legacy tokens. Raises OSError or ValueError, for a file that holds no key; it is read when first used."""

    def __init__(self, path: Path) -> None:
        self._pem = path.read_bytes()
        if b"PRIVATE KEY-----" not in self._pem:
            raise ValueError(f"{path} holds no private key in PEM form")
        self._key: Any = None

    def token(self, secret: Object, account: Object) -> str:
        import jwt
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        if self._key is None:
            self._key = serialization.load_pem_private_key(self._pem, None)
        public = self._key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        key_id = base64.urlsafe_b64encode(hashlib.sha256(public).digest()).rstrip(b"=").decode()
        algorithm = "RS256" if isinstance(self._key, rsa.RSAPrivateKey) else _CURVES[self._key.curve.name]
        return jwt.encode(claims(secret, account), self._key, algorithm, {"kid": key_id})


_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def claims(secret: Object, account: Object) -> dict[str, str]:
    prefix = "kubernetes.io/serviceaccount/"
    return {
        "iss": "kubernetes/serviceaccount",
        f"{prefix}namespace": namespace_of(account),
        f"{prefix}secret.name": name_of(secret),
        f"{prefix}service-account.name": name_of(account),
        f"{prefix}service-account.uid": uid_of(account),
        "sub": f"system:serviceaccount:{namespace_of(account)}:{name_of(account)}",
    }


def belongs(secret: Object, account: Object | None) -> bool:
    """Whether the account that the Secret names is there, and still the one it was made for."""
    if account is None:
        return False
    uid = (secret["metadata"].get("annotations") or {}).get(UID)
    return not uid or uid == uid_of(account)


class ServiceAccountTokenController:
    """One loop over those Secrets; an account that goes wakes its own."""

    name = "serviceaccount-token-controller"

    def __init__(self, env: Environment, signer: Signer, root_ca: str, workers: int = 5) -> None:
        self._client, self._signer, self._root_ca = env.client, signer, root_ca
        self._secrets = env.informers.informer(SECRETS, field_selector=f"type={TYPE}")
        self._accounts = env.watch(SERVICE_ACCOUNTS)
        self._secrets.add_index(_BY_ACCOUNT, lambda secret: [_account_key(secret)])
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._secrets.add_handler(on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new))
        self._accounts.add_handler(on_add=self._wake, on_delete=self._wake)

    def _wake(self, account: Object) -> None:
        for secret in self._secrets.lister.by_index(_BY_ACCOUNT, key_of(account)):
            self._loop.add_object(secret)

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        secret = self._secrets.lister.get_key(key)
        if secret is None:
            return None
        account = await self._account(secret)
        try:
            if account is None or not belongs(secret, account):
                await self._client.delete(SECRETS, name_of(secret), namespace_of(secret), preconditions={"uid": uid_of(secret)})
            else:
                await self._fill(secret, account)
        except StatusError as error:
            if error.code != 404:
                raise
        return None

    async def _account(self, secret: Object) -> Object | None:
        """The live account before a Secret is deleted for want of it: the cache may lag behind both."""
        held = self._accounts.lister.get_key(_account_key(secret))
        if belongs(secret, held):
            return held
        name = (secret["metadata"].get("annotations") or {}).get(NAME) or ""
        try:
            return await self._client.get(SERVICE_ACCOUNTS, name, namespace_of(secret)) if name else None
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def _fill(self, secret: Object, account: Object) -> None:
        data, annotations = secret.get("data") or {}, secret["metadata"].get("annotations") or {}
        wanted = dict(data)
        if not data.get("token"):
            wanted["token"] = _encoded(self._signer.token(secret, account))
        if self._root_ca:
            wanted["ca.crt"] = _encoded(self._root_ca)
        wanted["namespace"] = _encoded(namespace_of(secret))
        if wanted == data and annotations.get(UID) == uid_of(account):
            return
        changed = clone(secret)
        changed["data"] = wanted
        changed["metadata"]["annotations"] = {**annotations, UID: uid_of(account)}
        await self._client.update(SECRETS, changed)


def _account_key(secret: Object) -> str:
    name = (secret["metadata"].get("annotations") or {}).get(NAME) or ""
    return f"{namespace_of(secret)}/{name}"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
