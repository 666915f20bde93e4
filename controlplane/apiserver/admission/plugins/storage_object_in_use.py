"""StorageObjectInUseProtection: volumes, claims and classes of attributes get the finalizer that keeps them while used."""

from controlplane.apiserver.admission.interface import CREATE, Attributes
from controlplane.apiserver.admission.plugins.base import Mutating

_FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Mutating):
    name = "StorageObjectInUseProtection"

    def handles(self, attributes: Attributes) -> bool:
        return attributes.group_resource in _FINALIZERS and not attributes.subresource and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        meta = (attributes.obj or {})["metadata"]
        finalizer = _FINALIZERS[attributes.group_resource]
        if finalizer not in (meta.get("finalizers") or []):
            meta["finalizers"] = [*(meta.get("finalizers") or []), finalizer]
