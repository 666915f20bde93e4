"""The answers of the pod resources API, made of what the managers know. Pure; ``server`` sends them.

Upstream tells each device alone, once for each NUMA node it belongs to (``apis/podresources/server_v1.go`` and
``cm/helpers.go``).
"""

from collections.abc import Iterable, Mapping, Sequence

from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.objects import pods
from node.kubelet.cm.device_manager.devices import ANYWHERE, Given
from node.kubelet.cm.dra.state import ClaimInfo
from node.kubelet.cm.memory_manager.state import Block
from node.kubelet.podresources.api import podresources_v1_pb2 as pb
from node.kubelet.podresources.interface import ClaimSource, Container, DeviceSource, Pod, ResourceSource


def pod_resources(pod: Pod, devices: DeviceSource, others: ResourceSource, claims: ClaimSource | None) -> pb.PodResources:
    """One pod; init containers only if they are sidecars."""
    sidecars = [each for each in pods.spec_of(pod).get("initContainers") or () if pods.is_sidecar(each)]
    containers = [_container(pod, each, devices, others, claims) for each in (*sidecars, *pods.containers(pod))]
    return pb.PodResources(name=name_of(pod), namespace=namespace_of(pod), containers=containers)


def allocatable(devices: DeviceSource, others: ResourceSource) -> pb.AllocatableResourcesResponse:
    """Everything that could be given away on this node."""
    found = [
        each
        for resource, known in devices.allocatable().items()
        for device in known.values()
        for each in _places(resource, device.id, device.nodes)
    ]
    cpus, memory = sorted(others.allocatable_cpus()), _memory(others.allocatable_memory())
    return pb.AllocatableResourcesResponse(devices=found, cpu_ids=cpus, memory=memory)


def _container(
    pod: Pod, container: Container, devices: DeviceSource, others: ResourceSource, claims: ClaimSource | None
) -> pb.ContainerResources:
    uid, name = uid_of(pod), str(container["name"])
    return pb.ContainerResources(
        name=name,
        devices=_given(devices.given(uid, name)),
        cpu_ids=sorted(others.exclusive_cpus(uid, name)),
        memory=_memory(others.memory_of(uid, name)),
        dynamic_resources=[_claim(each) for each in claims.claims_of(pod, container)] if claims is not None else (),
    )


def _given(held: Mapping[str, Given]) -> list[pb.ContainerDevices]:
    return [
        each
        for resource, given in sorted(held.items())
        for node, ids in given.nodes.items()
        for device in ids
        for each in _places(resource, device, () if node == ANYWHERE else (node,))
    ]


def _places(resource: str, device: str, nodes: Sequence[int]) -> Iterable[pb.ContainerDevices]:
    if not nodes:
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device])
    for node in nodes:
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device], topology=_topology((node,)))


def _topology(nodes: Iterable[int]) -> pb.TopologyInfo:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])


def _memory(blocks: Iterable[Block]) -> list[pb.ContainerMemory]:
    return [pb.ContainerMemory(memory_type=each.type, size=each.size, topology=_topology(each.nodes)) for each in blocks]


def _claim(info: ClaimInfo) -> pb.DynamicResource:
    devices = [
        pb.ClaimResource(
            cdi_devices=[pb.CDIDevice(name=name) for name in each.cdi],
            driver_name=driver,
            pool_name=each.pool,
            device_name=each.name,
            share_id=each.share or None,
        )
        for driver, listed in sorted(info.drivers.items())
        for each in listed
    ]
    return pb.DynamicResource(claim_name=info.name, claim_namespace=info.namespace, claim_resources=devices)
