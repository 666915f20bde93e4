"""token_cleaner: removes bootstrap tokens that have expired, so that what nobody may use any more is kept nowhere.

Off unless ``--controllers`` names it, as upstream's; ``up`` does. Reads Secrets of that type in kube-system and no others.
"""

import base64
from datetime import datetime

from apimachinery.errors import StatusError
from apimachinery.meta import Object, key_of, uid_of
from apimachinery.resources import SECRETS
from apimachinery.times import parse_time
from component import logs
from controlplane.controllers.controller import Environment, Loop

TYPE, NAMESPACE = "bootstrap.kubernetes.io/token", "kube-system"
_log = logs.get(__name__)


def expires(secret: Object) -> datetime | None:
    """When the token ends; None for one that does not, or says it in a way that nobody can read."""
    try:
        text = base64.b64decode((secret.get("data") or {}).get("expiration") or "").decode()
        return parse_time(text) if text else None
    except ValueError:
        return None


class TokenCleaner:
    """One key per token, which comes back when the token ends."""

    name = "token-cleaner-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._secrets = env.informers.informer(SECRETS, NAMESPACE, field_selector=f"type={TYPE}")
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._secrets.add_handler(
            on_add=lambda secret: self._loop.add(key_of(secret)), on_update=lambda old, new: self._loop.add(key_of(new))
        )

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the token ends; None when there is nothing to wait for."""
        namespace, _, name = key.partition("/")
        secret = self._secrets.lister.get_key(key)
        if secret is None or (end := expires(secret)) is None:
            return None
        if (left := (end - self._clock.now()).total_seconds()) > 0:
            return left
        try:
            await self._client.delete(SECRETS, name, namespace, preconditions={"uid": uid_of(secret)})
            _log.info("Removed an expired bootstrap token", secret=name)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        return None
