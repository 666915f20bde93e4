"""PodTopologyLabels: pods carry the zone and region of their node, so that the downward API can tell them (KEP-4742)."""

from apimachinery.objects.nodes import REGION_LABEL, ZONE_LABEL
from component.featuregates import Gates
from controlplane.apiserver.admission.interface import CREATE, Attributes, Lookup
from controlplane.apiserver.admission.plugins.base import Mutating

_LABELS = (ZONE_LABEL, REGION_LABEL)


class PodTopologyLabels(Mutating):
    """Labels a Binding, whose labels go to the pod, or a pod that is created on its node. A pod's own labels of these names
    lose."""

    name = "PodTopologyLabels"

    def __init__(self, lookup: Lookup, features: Gates) -> None:
        self._lookup = lookup
        self._enabled = features.enabled("PodTopologyLabelsAdmission")

    def handles(self, attributes: Attributes) -> bool:
        part = attributes.subresource in ("", "binding")  # the old door, a POST to bindings, is not upstream's plugin's concern
        return self._enabled and attributes.group_resource == "pods" and part and attributes.operation == CREATE

    async def mutate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        if attributes.subresource == "binding":
            target = attributes.obj.get("target") or {}
            node = target.get("name") if target.get("kind") == "Node" else None
        else:
            node = (attributes.obj.get("spec") or {}).get("nodeName")
        found = await self._lookup("nodes", "", node) if node else None
        held = ((found or {}).get("metadata") or {}).get("labels") or {}
        if wanted := {key: held[key] for key in _LABELS if key in held}:
            metadata = attributes.obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **wanted}
