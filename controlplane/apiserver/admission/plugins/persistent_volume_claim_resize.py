"""PersistentVolumeClaimResize: only claims of a class that allows it may grow."""

from typing import Any

from apimachinery.quantity import parse
from controlplane.apiserver.admission.interface import UPDATE, Attributes, Lookup, Object, refuse
from controlplane.apiserver.admission.plugins.base import Validating

_WHY = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"


class PersistentVolumeClaimResize(Validating):
    name = "PersistentVolumeClaimResize"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != "persistentvolumeclaims" or attributes.subresource or attributes.operation != UPDATE:
            return False
        new, old = _size(attributes.obj), _size(attributes.old)
        return new is not None and old is not None and new != old and parse(old) < parse(new)

    async def validate(self, attributes: Attributes) -> None:
        old = attributes.old or {}
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refuse(attributes, "Only bound persistent volume claims can be expanded")
        annotations = old["metadata"].get("annotations") or {}
        beta = annotations.get("volume.beta.kubernetes.io/storage-class")
        name = beta if beta is not None else (old.get("spec") or {}).get("storageClassName")
        found = await self._lookup("storageclasses.storage.k8s.io", "", name) if name else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise refuse(attributes, _WHY)


def _size(claim: Object | None) -> Any:
    spec = (claim or {}).get("spec") or {}
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")
