"""csr_cleaner: removes requests that have served: issued, denied or failed an hour ago, expired, or a day without any answer."""

from datetime import datetime, timedelta
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, name_of, uid_of
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS
from apimachinery.times import parse_time
from component import logs
from component.x509 import parse
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.certificate_requests import certificate_of

_log = logs.get(__name__)
SWEEP_SECONDS = 60.0
_ANSWERED = timedelta(hours=1)
_PENDING = timedelta(hours=24)
_SWEEP = "#sweep"


def has_served(request: Object, now: datetime) -> bool:
    """Whether nobody will miss the request. An issued certificate that cannot be read keeps its request, for somebody to see."""
    conditions = (request.get("status") or {}).get("conditions") or ()
    if not conditions:
        return _older(request["metadata"].get("creationTimestamp"), _PENDING, now)
    certificate = certificate_of(request)
    for condition in conditions:
        kind, old = condition.get("type"), _older(condition.get("lastUpdateTime"), _ANSWERED, now)
        if kind in ("Denied", "Failed") and old:
            return True
        if kind == "Approved" and certificate and (old or parse(certificate).not_after < now):
            return True
    return False


def _older(when: Any, age: timedelta, now: datetime) -> bool:
    return bool(when) and parse_time(str(when)) < now - age


class CSRCleanerController:
    """One sweep a minute."""

    name = "certificatesigningrequest-cleaner-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._requests = env.watch(CERTIFICATE_SIGNING_REQUESTS)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)

    async def run(self) -> None:
        self._loop.add(_SWEEP)
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        for request in self._requests.lister.list():
            try:
                if has_served(request, self._clock.now()):
                    preconditions = {"uid": uid_of(request)}
                    await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name_of(request), preconditions=preconditions)
            except ValueError as error:
                _log.warning("An issued certificate cannot be read", request=name_of(request), err=error)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
        return SWEEP_SECONDS
