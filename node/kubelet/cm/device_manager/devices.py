"""Devices and who has them, as plain values. ``manager`` holds one :class:`PodDevices`; ``checkpoint`` writes it down."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb

HEALTHY = "Healthy"
ANYWHERE = -1
"""The node that upstream writes for devices that belong to no NUMA node."""

ByNode = Mapping[int, tuple[str, ...]]
"""Ids of devices by NUMA node; one that belongs to two nodes is listed twice."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device as its plugin describes it. ``health`` is the plugin's word; only ``Healthy`` counts as healthy."""

    id: str
    health: str = HEALTHY
    nodes: tuple[int, ...] = ()

    @property
    def healthy(self) -> bool:
        return self.health == HEALTHY


Devices = Mapping[str, Device]


def devices_of(listed: Iterable[pb.Device]) -> dict[str, Device]:
    """By id, from a plugin's list."""
    found = (Device(each.ID, each.health, tuple(node.ID for node in each.topology.nodes)) for each in listed)
    return {device.id: device for device in found}


def by_node(ids: Iterable[str], known: Devices) -> ByNode:
    """Those devices by NUMA node."""
    made: dict[int, list[str]] = {}
    for each in sorted(ids):
        for node in (known[each].nodes if each in known else ()) or (ANYWHERE,):
            made.setdefault(node, []).append(each)
    return {node: tuple(listed) for node, listed in sorted(made.items())}


@dataclass(frozen=True, slots=True)
class Given:
    """Devices of one resource that one container has. ``response`` is what its plugin said to do with them; None as long as
    they are only chosen."""

    nodes: ByNode
    response: pb.ContainerAllocateResponse | None = None

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(each for listed in self.nodes.values() for each in listed)


@dataclass(frozen=True, slots=True)
class Holding:
    """One row of :class:`PodDevices`."""

    uid: str
    container: str
    resource: str
    given: Given


@dataclass(slots=True)
class PodDevices:
    """What each container of this node has, by pod, container and resource."""

    _held: dict[str, dict[str, dict[str, Given]]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Holding]:
        for uid, containers in self._held.items():
            for container, resources in containers.items():
                for resource, given in resources.items():
                    yield Holding(uid, container, resource, given)

    def pods(self) -> list[str]:
        return list(self._held)

    def of_pod(self, uid: str) -> list[Holding]:
        containers = self._held.get(uid, {})
        return [Holding(uid, name, resource, given) for name, held in containers.items() for resource, given in held.items()]

    def of(self, uid: str, container: str) -> Mapping[str, Given]:
        """By resource."""
        return self._held.get(uid, {}).get(container, {})

    def ids(self, uid: str, container: str) -> dict[str, frozenset[str]]:
        return {resource: given.ids for resource, given in self.of(uid, container).items()}

    def used(self, resource: str) -> frozenset[str]:
        """All devices of a resource that somebody has."""
        return frozenset().union(*(each.given.ids for each in self if each.resource == resource))

    def resources(self) -> frozenset[str]:
        return frozenset(each.resource for each in self)

    def put(self, uid: str, container: str, resource: str, given: Given) -> None:
        self._held.setdefault(uid, {}).setdefault(container, {})[resource] = given

    def forget(self, uid: str) -> bool:
        """Whether the pod had any."""
        return self._held.pop(uid, None) is not None
