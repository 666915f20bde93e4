"""What a container asks for exclusively. Pure; CPU and memory manager agree by it on who is served."""

from apimachinery.objects import pods, qos
from apimachinery.objects.requests import CPU, MEMORY, amounts, container_requests
from node.kubelet.cm.interface import Container, Pod

HUGEPAGES = "hugepages-"


def is_hugepage(resource: str) -> bool:
    return resource.startswith(HUGEPAGES)


def has_pod_level_resources(pod: Pod) -> bool:
    """Whether the pod as a whole requests something; its containers are then not served one by one."""
    own = pods.spec_of(pod).get("resources") or {}
    listed = {**(own.get("requests") or {}), **(own.get("limits") or {})}
    return any(name in (CPU, MEMORY) or is_hugepage(name) for name in listed)


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """How many CPUs the container is to own: a whole number, in a Guaranteed pod; else 0."""
    if qos.qos_class(pod) != qos.GUARANTEED or has_pod_level_resources(pod):
        return 0
    whole, rest = divmod(container_requests(container).get(CPU, 0), 1000)
    return 0 if rest else whole


def pod_exclusive_cpus(pod: Pod) -> int:
    """How many CPUs all containers of the pod need at once."""
    sidecars = peak = 0
    for container in pods.spec_of(pod).get("initContainers") or ():
        wanted = exclusive_cpus(pod, container)
        if pods.is_sidecar(container):
            sidecars += wanted
        else:
            peak = max(peak, sidecars + wanted)
    return max(peak, sidecars + sum(exclusive_cpus(pod, container) for container in pods.containers(pod)))


def pinned_memory(pod: Pod, container: Container) -> dict[str, int]:
    """Bytes of memory and of huge pages that are to come from certain NUMA nodes: what a Guaranteed pod's container requests."""
    if qos.qos_class(pod) != qos.GUARANTEED or has_pod_level_resources(pod):
        return {}
    requested = amounts((container.get("resources") or {}).get("requests"))
    return {name: number for name, number in requested.items() if name == MEMORY or is_hugepage(name)}


def pod_pinned_memory(pod: Pod) -> dict[str, int]:
    """The same of all containers of the pod at once."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pods.spec_of(pod).get("initContainers") or ():
        for name, number in pinned_memory(pod, container).items():
            if pods.is_sidecar(container):
                sidecars[name] = sidecars.get(name, 0) + number
            else:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + number)
    total: dict[str, int] = {}
    for container in pods.containers(pod):
        for name, number in pinned_memory(pod, container).items():
            total[name] = total.get(name, 0) + number
    return {name: max(number + sidecars.get(name, 0), peak.get(name, 0)) for name, number in total.items()}


def is_ordinary_init(pod: Pod, name: str) -> bool:
    """Whether that container ends before the next one starts, so that the next may have what it had."""
    init = pods.spec_of(pod).get("initContainers") or ()
    return any(each["name"] == name and not pods.is_sidecar(each) for each in init)
