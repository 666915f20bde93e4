"""The objects of storage for the volume plugins: informers below, the scheduler's own intentions above.

Made by ``scheduler``; fulfils ``framework.storage.Storage``. Watches begin only when the scheduler starts, as all others.
"""

from collections.abc import Callable, Collection, Iterable

from apimachinery.meta import Object, key_of, make_key, name_of, uid_of
from apimachinery.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from client.assumed import Assumed
from client.informer import Informer, InformerFactory
from client.rest import Client
from component.clock import Clock
from controlplane.scheduler.framework.events import Action, ClusterEvent, On
from controlplane.scheduler.waiters import Waiters

_BY_CLASS = "capacity-class"


class ApiStorage:
    """``tell`` hears of changes that may make a refused pod fit."""

    def __init__(self, client: Client, informers: InformerFactory, pods: Informer, clock: Clock) -> None:
        self._client, self._pods = client, pods
        self._informers = {
            On.CLAIM: informers.informer(PERSISTENT_VOLUME_CLAIMS),
            On.VOLUME: informers.informer(PERSISTENT_VOLUMES),
            On.STORAGE_CLASS: informers.informer(STORAGE_CLASSES),
            On.CSI_NODE: informers.informer(CSI_NODES),
            On.CSI_DRIVER: informers.informer(CSI_DRIVERS),
            On.CAPACITY: informers.informer(CSI_STORAGE_CAPACITIES),
        }
        self._informers[On.CAPACITY].add_index(_BY_CLASS, _class_of_capacity)
        self._claims, self._volumes = Assumed(self._informers[On.CLAIM]), Assumed(self._informers[On.VOLUME])
        self._waiters = Waiters(clock)
        self._informers[On.CLAIM].add_handler(on_update=lambda old, new: self._wake(new), on_delete=self._wake)
        pods.add_handler(on_delete=self._pod_gone)

    def report(self, tell: Callable[[ClusterEvent], object]) -> None:
        for on, informer in self._informers.items():
            self._report(on, informer, tell)

    def _report(self, on: str, informer: Informer, tell: Callable[[ClusterEvent], object]) -> None:
        informer.add_handler(
            on_add=lambda new: tell(ClusterEvent(on, Action.ADD, None, new)),
            on_update=lambda old, new: tell(ClusterEvent(on, Action.UPDATE_OTHER, old, new)),
            on_delete=lambda old: tell(ClusterEvent(on, Action.DELETE, old, None)),
        )

    # Reads

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._claims.get(make_key(namespace, name))

    def volume(self, name: str) -> Object | None:
        return self._volumes.get(name)

    def volumes(self) -> Collection[Object]:
        return self._volumes.list()

    def storage_class(self, name: str) -> Object | None:
        return self._informers[On.STORAGE_CLASS].lister.get(name)

    def csi_node(self, name: str) -> Object | None:
        return self._informers[On.CSI_NODE].lister.get(name)

    def csi_driver(self, name: str) -> Object | None:
        return self._informers[On.CSI_DRIVER].lister.get(name)

    def capacities(self, storage_class: str) -> Iterable[Object]:
        return self._informers[On.CAPACITY].lister.by_index(_BY_CLASS, storage_class)

    # Intentions and writes

    def intend_volume(self, changed: Object) -> None:
        self._volumes.intend(changed)

    def intend_claim(self, changed: Object) -> None:
        self._claims.intend(changed)

    def give_up(self, volumes: Iterable[Object], claims: Iterable[Object]) -> None:
        for volume in volumes:
            self._volumes.drop(name_of(volume))
        for claim in claims:
            self._claims.drop(key_of(claim))

    async def write_volume(self, changed: Object) -> Object:
        written = await self._client.update(PERSISTENT_VOLUMES, changed)
        self._volumes.wrote(written)
        return written

    async def write_claim(self, changed: Object) -> Object:
        written = await self._client.update(PERSISTENT_VOLUME_CLAIMS, changed)
        self._claims.wrote(written)
        return written

    # Waiting

    def pod_exists(self, namespace: str, name: str, uid: str) -> bool:
        pod = self._pods.lister.get(name, namespace)
        return pod is not None and uid_of(pod) == uid

    async def change(self, claims: Iterable[str], seconds: float) -> None:
        await self._waiters.change(claims, seconds)

    def _wake(self, claim: Object) -> None:
        self._waiters.wake(key_of(claim))

    def _pod_gone(self, pod: Object) -> None:
        """Whoever waits for its claims must learn that it waits in vain."""
        self._waiters.wake_all()


def _class_of_capacity(capacity: Object) -> Iterable[str]:
    yield str(capacity.get("storageClassName") or "")
