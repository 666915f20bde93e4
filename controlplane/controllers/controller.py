"""The shape of every controller: informers > keys in a queue > ``reconcile(key)``.

Handlers only enqueue keys; reconcilers read caches and may run twice. ``__main__`` builds an Environment, hands it to the
makers in ``catalog``, starts the informers once all have registered, and then runs every controller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, controller_of, key_of, namespace_of
from client.events import Recorder
from client.informer import Informer, InformerFactory
from client.rest import Client
from client.workqueue import WorkQueue
from component import logs
from component.clock import Clock
from component.metrics import Registry
from controlplane.controllers.lib.pod_control import is_namespace_terminating

Reconcile = Callable[[str], Awaitable[float | None]]
"""Bring one key to its wanted state. Returns seconds after which to look again, or None; raises to be tried again soon."""

BY_CONTROLLER = "controller"

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Environment:
    """What controllers are given. ``recorders`` makes an event recorder that names its controller."""

    client: Client
    informers: InformerFactory
    recorders: Callable[[str], Recorder]
    clock: Clock
    options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Registry | None = None

    def watch(self, resource: GroupVersionResource) -> Informer:
        """The shared informer of a whole resource."""
        return self.informers.informer(resource)

    def watch_owned(self, resource: GroupVersionResource) -> Informer:
        """As :meth:`watch`, indexed by controlling owner: see :func:`owner_index`."""
        informer = self.informers.informer(resource)
        informer.add_index(BY_CONTROLLER, owner_index)
        return informer


def owner_index(obj: Object) -> list[str]:
    """The controlling owner's uid; objects without one are found under ``orphans/<namespace>``."""
    reference = controller_of(obj)
    return [reference["uid"]] if reference is not None else [orphans_of(namespace_of(obj))]


def orphans_of(namespace: str) -> str:
    return f"orphans/{namespace}"


class NotYetError(Exception):
    """Nothing can be done for the key now and nothing is wrong: try again with growing delay, without an error line."""


class Controller(Protocol):
    """``run`` starts after all caches are filled and goes on until cancelled."""

    name: str

    async def run(self) -> None: ...


class Loop:
    """A work queue and its workers: never two on one key, duplicates fold, failures come back with growing delays.

    The queue holds keys of existing objects, so it is bounded by the cluster's size.
    """

    def __init__(self, name: str, reconcile: Reconcile, env: Environment, workers: int = 5) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._queue: WorkQueue[str] = WorkQueue(name, env.clock, metrics=env.metrics)

    def add(self, key: str) -> None:
        self._queue.add(key)

    def add_object(self, obj: Object) -> None:
        self._queue.add(key_of(obj))

    def add_after(self, key: str, seconds: float) -> None:
        self._queue.add_after(key, seconds)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._name}-{number}")
        finally:
            self._queue.shut_down()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                again = await self._reconcile(key)
            except StatusError as error:
                self._failed(key, error, expected=_is_passing(error))
            except NotYetError as error:
                self._failed(key, error, expected=True)
            except Exception as error:
                self._failed(key, error)
            else:
                self._queue.forget(key)
                if again is not None:
                    self._queue.add_after(key, again)
            finally:
                self._queue.done(key)

    def _failed(self, key: str, error: Exception, *, expected: bool = False) -> None:
        if expected:
            _log.v(3, "Reconciling has to wait, it will be tried again", loop=self._name, key=key, err=error)
        else:
            _log.error("Reconciling failed, it will be tried again", loop=self._name, key=key, err=error)
        self._queue.add_rate_limited(key)


def _is_passing(error: StatusError) -> bool:
    """The cache lagged behind a change or a deletion: common, cured by another look, not worth an error line."""
    return error.code in (404, 409) or is_namespace_terminating(error)
