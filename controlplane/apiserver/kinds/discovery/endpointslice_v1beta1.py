"""EndpointSlices as discovery.k8s.io/v1beta1: zone and host stand in a map of topology labels."""

from collections.abc import Callable

from controlplane.apiserver.kinds.shared.versions import VersionView
from controlplane.apiserver.registry.strategy import Object

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class EndpointSliceV1beta1Strategy(VersionView):
    same_fields = False

    def to_stored(self, obj: Object) -> Object:
        return _each(super().to_stored(obj), endpoint_to_v1)

    def from_stored(self, obj: Object) -> Object:
        return _each(super().from_stored(obj), endpoint_from_v1)


def _each(obj: Object, change: Callable[[Object], Object]) -> Object:
    endpoints = obj.get("endpoints")
    return obj if endpoints is None else {**obj, "endpoints": [change(one) for one in endpoints]}


def endpoint_to_v1(endpoint: Object) -> Object:
    """A host that only repeats the node's name is not kept twice."""
    made = {field: value for field, value in endpoint.items() if field != "topology"}
    rest = dict(endpoint.get("topology") or {})
    if ZONE in rest:
        made["zone"] = rest.pop(ZONE)
    if HOST in rest and rest[HOST] == made.get("nodeName"):
        del rest[HOST]
    return {**made, "deprecatedTopology": rest} if rest else made


def endpoint_from_v1(endpoint: Object) -> Object:
    made = {field: value for field, value in endpoint.items() if field not in ("deprecatedTopology", "zone")}
    topology = dict(endpoint.get("deprecatedTopology") or {})
    if endpoint.get("zone") is not None:
        topology[ZONE] = endpoint["zone"]
    if endpoint.get("nodeName") is not None:
        topology.setdefault(HOST, endpoint["nodeName"])
    return {**made, "topology": topology} if topology else made
