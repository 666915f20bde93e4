"""legacy_token_cleaner: service account tokens without an end that nobody has used for a year are marked invalid, then removed.

Only tokens that were once made for an account by themselves (the account lists them) and that no pod mounts. A marked token is
refused, and can be had back by removing the label; another year later its Secret goes. Upstream's
``pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go``.
"""

from collections.abc import Iterable
from datetime import date, timedelta

from apimachinery.errors import StatusError
from apimachinery.meta import Object, name_of, namespace_of, uid_of
from apimachinery.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from component import logs
from controlplane.controllers.controller import Environment, Loop

TYPE = "kubernetes.io/service-account-token"
LAST_USED, INVALID_SINCE = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
_SINCE, _NAMESPACE = "since", "kube-system"
_SWEEP, _SWEEP_SECONDS = "#sweep", 24 * 3600.0
_log = logs.get(__name__)


def decision(secret: Object, since: date, today: date, unused: timedelta) -> str:
    """``keep``, ``mark`` or ``remove``. ``since`` is the day from which uses have been noted."""
    labels = secret["metadata"].get("labels") or {}
    last = _day(labels.get(LAST_USED)) or _day(str(secret["metadata"].get("creationTimestamp") or "")[:10])
    if last is None or max(last, since) > today - unused:
        return "keep"
    invalid = _day(labels.get(INVALID_SINCE))
    if invalid is None:
        return "mark"
    return "remove" if invalid <= today - unused and invalid >= max(last, since) else "keep"


def candidates(secrets: Iterable[Object], accounts: Iterable[Object], pods: Iterable[Object]) -> list[Object]:
    """Tokens that accounts list as theirs and that no pod mounts."""
    listed = {(namespace_of(account), each.get("name")) for account in accounts for each in account.get("secrets") or ()}
    mounted = {
        (namespace_of(pod), (volume.get("secret") or {}).get("secretName"))
        for pod in pods
        for volume in (pod.get("spec") or {}).get("volumes") or ()
    }
    keys = ((secret, (namespace_of(secret), name_of(secret))) for secret in secrets)
    return [secret for secret, key in keys if key in listed and key not in mounted]


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None


class LegacyTokenCleaner:
    """One sweep a day."""

    name = "legacy-serviceaccount-token-cleaner-controller"

    def __init__(self, env: Environment, unused: float) -> None:
        self._client, self._clock, self._unused = env.client, env.clock, timedelta(seconds=unused)
        self._secrets = env.informers.informer(SECRETS, field_selector=f"type={TYPE}")
        self._accounts, self._pods = env.watch(SERVICE_ACCOUNTS), env.watch(PODS)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)

    async def run(self) -> None:
        self._loop.add(_SWEEP)
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        since = await self._since()
        if since is None:
            return _SWEEP_SECONDS
        today = self._clock.now().date()
        for secret in candidates(self._secrets.lister.list(), self._accounts.lister.list(), self._pods.lister.list()):
            await self._act(secret, decision(secret, since, today, self._unused), today)
        return _SWEEP_SECONDS

    async def _since(self) -> date | None:
        """From when on the API server has noted uses; None when it does not say."""
        try:
            found = await self._client.get(CONFIG_MAPS, TRACKING, _NAMESPACE)
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        return _day((found.get("data") or {}).get(_SINCE))

    async def _act(self, secret: Object, what: str, today: date) -> None:
        name, namespace = name_of(secret), namespace_of(secret)
        try:
            if what == "mark":
                body = {"metadata": {"uid": uid_of(secret), "labels": {INVALID_SINCE: today.isoformat()}}}
                await self._client.patch(SECRETS, name, body, namespace=namespace)
                _log.info("Marked an unused service account token as invalid", secret=name, namespace=namespace)
            elif what == "remove":
                version = str(secret["metadata"].get("resourceVersion") or "")
                preconditions = {"uid": uid_of(secret), "resourceVersion": version}
                await self._client.delete(SECRETS, name, namespace, preconditions=preconditions)
                _log.info("Removed an unused service account token", secret=name, namespace=namespace)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
