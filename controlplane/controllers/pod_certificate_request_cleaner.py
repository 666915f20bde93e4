"""pod_certificate_request_cleaner: removes PodCertificateRequests that are fifteen minutes old. By then their kubelet has its
answer, or has given up waiting for it."""

from datetime import timedelta

from apimachinery.errors import StatusError
from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.resources import POD_CERTIFICATE_REQUESTS
from apimachinery.times import parse_time
from controlplane.controllers.controller import Environment, Loop

SWEEP_SECONDS = 60.0
_AGE = timedelta(minutes=15)
_SWEEP = "#sweep"


class PodCertificateRequestCleaner:
    """One sweep a minute."""

    name = "podcertificaterequest-cleaner-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._requests = env.watch(POD_CERTIFICATE_REQUESTS)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)

    async def run(self) -> None:
        self._loop.add(_SWEEP)
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        oldest = self._clock.now() - _AGE
        for request in self._requests.lister.list():
            if parse_time(request["metadata"]["creationTimestamp"]) >= oldest:
                continue
            try:
                preconditions = {"uid": uid_of(request)}
                name, namespace = name_of(request), namespace_of(request)
                await self._client.delete(POD_CERTIFICATE_REQUESTS, name, namespace, preconditions=preconditions)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
        return SWEEP_SECONDS
