"""LimitPodHardAntiAffinityTopology: a pod may demand to be alone on a node, not in anything larger. Optional."""

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, refuse
from controlplane.apiserver.admission.plugins.base import Validating

_HOSTNAME = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(Validating):
    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, attributes: Attributes) -> bool:
        named = attributes.group_resource == "pods" and not attributes.subresource
        return named and attributes.operation in (CREATE, UPDATE) and attributes.obj is not None

    async def validate(self, attributes: Attributes) -> None:
        affinity = ((attributes.obj or {}).get("spec") or {}).get("affinity") or {}
        terms = (affinity.get("podAntiAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for term in terms:
            if (key := term.get("topologyKey") or "") != _HOSTNAME:
                text = "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey"
                raise refuse(attributes, f"{text} {key} but only key {_HOSTNAME} is allowed")
