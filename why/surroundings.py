"""The scheduler's view of a snapshot: storage and devices as its plugins ask for them, without anything to write to.

Made by ``scheduling``. Fulfils ``framework.storage.Storage`` and ``framework.devices.Devices``: the reads are answered from
the snapshot, and what would promise or write something is inherited from the empty implementations.
"""

from collections.abc import Collection, Iterable, Mapping

from apimachinery.meta import Object, annotation, name_of
from apimachinery.objects import claims
from controlplane.scheduler.claims import mapping_of
from controlplane.scheduler.devices.pools import Catalogue
from controlplane.scheduler.devices.taken import Taken
from controlplane.scheduler.framework.devices import NoDevices
from controlplane.scheduler.framework.storage import NoStorage
from why.snapshot import Snapshot


class SeenStorage(NoStorage):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._snapshot.get("PersistentVolumeClaim", name, namespace)

    def volume(self, name: str) -> Object | None:
        return self._snapshot.get("PersistentVolume", name)

    def volumes(self) -> Collection[Object]:
        return self._snapshot.all("PersistentVolume")

    def storage_class(self, name: str) -> Object | None:
        return self._snapshot.get("StorageClass", name)

    def csi_node(self, name: str) -> Object | None:
        return self._snapshot.get("CSINode", name)

    def csi_driver(self, name: str) -> Object | None:
        return self._snapshot.get("CSIDriver", name)

    def capacities(self, storage_class: str) -> Iterable[Object]:
        listed = self._snapshot.all("CSIStorageCapacity")
        return [each for each in listed if each.get("storageClassName") == storage_class]


class SeenDevices(NoDevices):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def claim(self, namespace: str, name: str) -> Object | None:
        return self._snapshot.get("ResourceClaim", name, namespace)

    def extended_claim(self, pod_uid: str) -> Object | None:
        return next(
            (
                each
                for each in self._snapshot.all("ResourceClaim")
                if annotation(each, claims.EXTENDED_ANNOTATION) == "true" and claims.owning_pod(each)[1] == pod_uid
            ),
            None,
        )

    def classes(self) -> Mapping[str, Object]:
        return {name_of(each): each for each in self._snapshot.all("DeviceClass")}

    def class_of(self, resource: str) -> str:
        if resource.startswith(claims.IMPLICIT_EXTENDED_PREFIX):
            name = resource.removeprefix(claims.IMPLICIT_EXTENDED_PREFIX)
            return name if name in self.classes() else ""
        return mapping_of(self._snapshot.all("DeviceClass")).get(resource, "")

    def catalogue(self) -> Catalogue:
        return Catalogue(self._snapshot.all("ResourceSlice"))

    def taken(self) -> Taken:
        return Taken(self._snapshot.all("ResourceClaim"))
