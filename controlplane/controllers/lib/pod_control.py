"""Makes and removes pods for a controller: template in, API calls and events out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import SystemRandom
from typing import Any

from apimachinery import names
from apimachinery.errors import StatusError
from apimachinery.meta import Object, controller_of, name_of, namespace_of
from apimachinery.resources import PODS
from client.events import Recorder
from client.rest import Client

BURST = 500
"""Upstream's bound on pods made or removed by one reconciliation."""

PARALLEL = 16
"""Requests of one reconciliation at a time: more would only open more connections, and wait at the server instead."""

TRIES = 5
"""Of one pod whose request got no answer, a second apart at most: a server that was killed has been replaced by then."""

_choose = SystemRandom().choice


def from_template(template: Mapping[str, Any], namespace: str, prefix: str, owner: Mapping[str, Any]) -> Object:
    """The pod that a workload's template describes, to be named after ``prefix``."""
    described = template.get("metadata") or {}
    metadata: Object = {"generateName": prefix, "namespace": namespace}
    for field in ("labels", "annotations", "finalizers"):
        if described.get(field):
            metadata[field] = described[field]
    metadata["ownerReferences"] = [dict(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


async def slow_start(count: int, initial: int, act: Callable[[], Awaitable[bool]]) -> int:
    """Run ``act`` ``count`` times in batches of 1, 2, 4...; stop after the first batch with a failure.

    So a workload that can never succeed (quota, bad template) costs one refused call per try, not hundreds. Returns how
    many succeeded and raises the first error after its batch is complete.
    """
    remaining, done, size = count, 0, min(count, initial)
    slots = asyncio.Semaphore(PARALLEL)

    async def in_slot() -> bool:
        async with slots:
            return await act()

    while size > 0:
        results = await asyncio.gather(*(in_slot() for _ in range(size)), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        done += len(results) - len(failures)
        if failures:
            raise SlowStartError(done, failures[0])
        remaining -= size
        size = min(2 * size, remaining)
    return done


class SlowStartError(Exception):
    """A batch had a failure; ``done`` calls succeeded before and beside it."""

    def __init__(self, done: int, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.done = done
        self.cause = cause


def is_namespace_terminating(error: StatusError) -> bool:
    """The namespace goes away, so does the owner: not worth an event."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


class PodControl:
    """Pod writes with upstream's events on the owner."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder

    async def create(self, owner: Object, pod: Object) -> Object:
        """Once, though the answer be lost with the server that gave it: the pod gets its name here, in the form in which the
        server would choose one, so that asking again makes no second pod.

        Raises StatusError, and ConnectionError when nobody answers.
        """
        try:
            made = await self._create(_named(pod))
        except StatusError as error:
            if not is_namespace_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}", "Create")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(made)}", "Create")
        return made

    async def _create(self, pod: Object) -> Object:
        for left in reversed(range(TRIES)):
            try:
                return await self._client.create(PODS, pod, namespace_of(pod))
            except ConnectionError:
                if not left:
                    raise
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
                return await self._made_before(pod, error)
            await self._client.clock.sleep(1 / (1 + left))
        raise AssertionError("unreachable")

    async def _made_before(self, pod: Object, refused: StatusError) -> Object:
        """What a request without an answer has made, or ``refused`` if the name is somebody else's."""
        found = await self._client.get(PODS, name_of(pod), namespace_of(pod))
        if (controller_of(found) or {}).get("uid") != (controller_of(pod) or {}).get("uid"):
            raise refused
        return found

    async def delete(self, owner: Object, pod: Object) -> bool:
        """False when it was gone already."""
        try:
            await self._client.delete(PODS, name_of(pod), namespace_of(pod))
        except StatusError as error:
            if error.code == 404:
                return False
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}", "Delete")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}", "Delete")
        return True


def _named(pod: Object) -> Object:
    """With a name, if there is none yet."""
    meta = pod["metadata"]
    return pod if meta.get("name") else {**pod, "metadata": {**meta, "name": names.generate(meta["generateName"], _choose)}}
