"""DefaultStorageClass and DefaultIngressClass: who names no class gets the newest of those marked as default."""

from collections.abc import Sequence

from controlplane.apiserver.admission.interface import CREATE, Attributes, Listing, Object
from controlplane.apiserver.admission.plugins.base import Mutating

_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)


def newest_default(classes: Sequence[Object], annotations: Sequence[str]) -> str:
    """The name, or nothing."""
    marked = [one for one in classes if any((one["metadata"].get("annotations") or {}).get(key) == "true" for key in annotations)]
    marked.sort(key=lambda one: str(one["metadata"]["name"]))
    marked.sort(key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), reverse=True)
    return str(marked[0]["metadata"]["name"]) if marked else ""


class DefaultStorageClass(Mutating):
    name = "DefaultStorageClass"

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != "persistentvolumeclaims" or attributes.subresource or attributes.operation != CREATE:
            return False
        obj = attributes.obj or {}
        beta = "volume.beta.kubernetes.io/storage-class" in ((obj.get("metadata") or {}).get("annotations") or {})
        return not beta and (obj.get("spec") or {}).get("storageClassName") is None  # an empty name asks for no class

    async def mutate(self, attributes: Attributes) -> None:
        name = newest_default(await self._listing("storageclasses.storage.k8s.io", ""), _STORAGE)
        if name:
            (attributes.obj or {})["spec"]["storageClassName"] = name


class DefaultIngressClass(Mutating):
    name = "DefaultIngressClass"

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != "ingresses.networking.k8s.io" or attributes.subresource or attributes.operation != CREATE:
            return False
        obj = attributes.obj or {}
        old_way = "kubernetes.io/ingress.class" in ((obj.get("metadata") or {}).get("annotations") or {})
        return not old_way and (obj.get("spec") or {}).get("ingressClassName") is None

    async def mutate(self, attributes: Attributes) -> None:
        name = newest_default(await self._listing("ingressclasses.networking.k8s.io", ""), _INGRESS)
        if name:
            (attributes.obj or {}).setdefault("spec", {})["ingressClassName"] = name
