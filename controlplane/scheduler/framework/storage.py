"""What volume plugins may know and do: the objects of storage as the scheduler sees them, its own intentions included.

``controlplane.scheduler.storage`` fulfils it over informers and the API; tests and benches use :class:`NoStorage`.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

from apimachinery.meta import Object, key_of
from controlplane.scheduler.framework.events import ClusterEvent
from controlplane.scheduler.framework.types import PodInfo


class Storage(Protocol):
    """Reads are instant and from caches. What is intended shows in reads until it is seen, written or given up."""

    def claim(self, namespace: str, name: str) -> Object | None: ...

    def volume(self, name: str) -> Object | None: ...

    def volumes(self) -> Collection[Object]: ...

    def storage_class(self, name: str) -> Object | None: ...

    def csi_node(self, name: str) -> Object | None: ...

    def csi_driver(self, name: str) -> Object | None: ...

    def capacities(self, storage_class: str) -> Iterable[Object]:
        """The CSIStorageCapacities of a class."""
        ...

    def intend_volume(self, changed: Object) -> None: ...

    def intend_claim(self, changed: Object) -> None: ...

    def give_up(self, volumes: Iterable[Object], claims: Iterable[Object]) -> None: ...

    async def write_volume(self, changed: Object) -> Object:
        """Raises StatusError, with a 409 when somebody changed it meanwhile."""
        ...

    async def write_claim(self, changed: Object) -> Object: ...

    def pod_exists(self, namespace: str, name: str, uid: str) -> bool: ...

    async def change(self, claims: Iterable[str], seconds: float) -> None:
        """Wait for the next change of one of these claims (``namespace/name``), at most so long."""
        ...


class NoStorage:
    """A cluster without any volumes."""

    def claim(self, namespace: str, name: str) -> Object | None:
        return None

    def volume(self, name: str) -> Object | None:
        return None

    def volumes(self) -> Collection[Object]:
        return ()

    def storage_class(self, name: str) -> Object | None:
        return None

    def csi_node(self, name: str) -> Object | None:
        return None

    def csi_driver(self, name: str) -> Object | None:
        return None

    def capacities(self, storage_class: str) -> Iterable[Object]:
        return ()

    def intend_volume(self, changed: Object) -> None: ...

    def intend_claim(self, changed: Object) -> None: ...

    def give_up(self, volumes: Iterable[Object], claims: Iterable[Object]) -> None: ...

    async def write_volume(self, changed: Object) -> Object:
        return changed

    async def write_claim(self, changed: Object) -> Object:
        return changed

    def pod_exists(self, namespace: str, name: str, uid: str) -> bool:
        return True

    async def change(self, claims: Iterable[str], seconds: float) -> None: ...


def is_claim_of(pod: PodInfo, event: ClusterEvent) -> bool:
    """The hint of volume plugins for changes of claims: only its own help a pod."""
    return event.new is None or key_of(event.new) in pod.claims
