"""bootstrap_signer: signs the kubeconfig in ConfigMap ``cluster-info`` of kube-public with every bootstrap token that may sign.

Who joins with a token reads it there without credentials, and knows by the signature (a detached JWS) that it comes from somebody
who knows the token. Off unless ``--controllers`` names it, as upstream's; what it signs is put there by kubeadm or by people.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone
from apimachinery.resources import CONFIG_MAPS, SECRETS
from apimachinery.times import parse_time
from controlplane.controllers.controller import Environment, Loop

NAME, NAMESPACE = "cluster-info", "kube-public"
TOKENS = "kube-system"
_TYPE, _PREFIX = "bootstrap.kubernetes.io/token", "jws-kubeconfig-"
_CONTENT = "kubeconfig"
_KEY = "the one"


def usable(secret: Object, now: datetime) -> tuple[str, str] | None:
    """Id and secret of a token that may sign; None for all others."""
    data = _decoded(secret)
    name, token_id = secret["metadata"].get("name", ""), data.get("token-id", "")
    if secret.get("type") != _TYPE or data.get("usage-bootstrap-signing") != "true" or name != f"bootstrap-token-{token_id}":
        return None
    if not token_id or not data.get("token-secret"):
        return None
    try:
        ended = bool(data.get("expiration")) and parse_time(data["expiration"]) < now
    except ValueError:
        ended = True
    return None if ended else (token_id, data["token-secret"])


def signature(content: str, token_id: str, secret: str) -> str:
    """A JWS (RFC 7515) with HS256 whose payload is left out: header, nothing, signature."""
    header = _url(json.dumps({"alg": "HS256", "kid": token_id}, separators=(",", ":")).encode())
    signed = f"{header}.{_url(content.encode())}"
    return f"{header}..{_url(hmac.digest(secret.encode(), signed.encode(), hashlib.sha256))}"


def signed_data(data: Mapping[str, str], tokens: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The ConfigMap's data with a signature for each token, and none for tokens that are gone."""
    kept = {key: value for key, value in data.items() if not key.startswith(_PREFIX)}
    content = data.get(_CONTENT)
    if content:
        kept |= {_PREFIX + token_id: signature(content, token_id, secret) for token_id, secret in tokens}
    return kept


class BootstrapSigner:
    """One key: everything is signed anew when the ConfigMap or a token changes, and compared with what is there."""

    name = "bootstrap-signer-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._maps = env.informers.informer(CONFIG_MAPS, NAMESPACE, field_selector=f"metadata.name={NAME}")
        self._secrets = env.informers.informer(SECRETS, TOKENS, field_selector=f"type={_TYPE}")
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        for informer in (self._maps, self._secrets):
            informer.add_handler(
                on_add=lambda obj: self._loop.add(_KEY),
                on_update=lambda old, new: self._loop.add(_KEY),
                on_delete=lambda obj: self._loop.add(_KEY),
            )

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        held = self._maps.lister.get(NAME, NAMESPACE)
        if held is None:
            return None
        now = self._clock.now()
        tokens = filter(None, (usable(secret, now) for secret in self._secrets.lister.list()))
        wanted = signed_data(held.get("data") or {}, tokens)
        if wanted == (held.get("data") or {}):
            return None
        changed = clone(held)
        changed["data"] = wanted
        try:
            await self._client.update(CONFIG_MAPS, changed)
        except StatusError as error:
            if error.code != 404:
                raise
        return None


def _decoded(secret: Object) -> dict[str, str]:
    found = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value).decode()
        except ValueError:
            continue
    return found


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
