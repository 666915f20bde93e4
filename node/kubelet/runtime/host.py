"""What the runtime layer is given to work with: one value, made by ``kubelet.py``, instead of a dozen arguments each."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from component.clock import Clock
from cri.interface import RuntimeService
from node.kubelet.cm.device_manager.run_options import NOTHING, RunOptions
from node.kubelet.config import KubeletConfig
from node.kubelet.images.pull import ImagePuller
from node.kubelet.interface import ObjectSource, VolumeManager
from node.kubelet.recorder import PodEvents
from node.kubelet.runtime import dns, resources
from node.kubelet.runtime.gate import Gate
from node.kubelet.runtime.resources import ANYWHERE
from node.kubelet.userns import IdRange


class Counters(Protocol):
    """What the runtime layer counts."""

    def pod_started(self, error: bool = False) -> None: ...

    def container_started(self, error: str = "") -> None: ...

    def pod_runs(self, seconds: float) -> None: ...


class PodCgroups(Protocol):
    """Where the containers of a pod are accounted."""

    async def ensure(self, pod: Mapping[str, Any]) -> str:
        """Make the pod's cgroup with its limits; CRI's ``cgroup_parent``."""
        ...

    async def remove(self, uid: str) -> None: ...

    async def weigh(self, taken: Sequence[Mapping[str, Any]]) -> None:
        """Bring the weights of the quality classes in line with the pods of this node."""
        ...

    async def present(self) -> Sequence[str]:
        """The uids of all pods that have a cgroup."""
        ...


class Users(Protocol):
    """The user namespaces of pods. Both methods block."""

    def of(self, pod: Mapping[str, Any], handler: str) -> IdRange | None:
        """The ids of the pod's own; None: it shares the host's. Raises ValueError or OSError."""
        ...

    def release(self, uid: str) -> None: ...


class HostUsers:
    """No pod has users of its own."""

    def of(self, pod: Mapping[str, Any], handler: str) -> IdRange | None:
        return None

    def release(self, uid: str) -> None:
        """Nothing was given."""


async def _no_devices(pod: Mapping[str, Any], container: Mapping[str, Any]) -> RunOptions:
    return NOTHING


@dataclass(frozen=True, slots=True)
class Host:
    """The node's services and facts."""

    config: KubeletConfig
    runtime: RuntimeService
    images: ImagePuller
    volumes: VolumeManager
    objects: ObjectSource
    cgroups: PodCgroups
    events: PodEvents
    clock: Clock
    gate: Gate
    metrics: Counters
    users: Users = field(default_factory=HostUsers)
    refresh_period: Callable[[float], float] = field(default=lambda longest: longest)
    services: Callable[[], Iterable[Mapping[str, Any]]] = field(default=lambda: ())
    allocatable: Callable[[], Mapping[str, str]] = field(default=dict)
    limits: resources.Node = field(default_factory=resources.Node)
    pinning: Callable[[Mapping[str, Any], Mapping[str, Any]], resources.Pinning] = field(default=lambda pod, container: ANYWHERE)
    claim_devices: Callable[[Mapping[str, Any], Mapping[str, Any]], Sequence[str]] = field(default=lambda pod, container: ())
    device_options: Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[RunOptions]] = field(default=_no_devices)
    recursive_read_only: Callable[[], bool] = field(default=lambda: False)
    node_ips: Callable[[], tuple[str, ...]] = field(default=tuple)
    host_dns: Callable[[], dns.ResolvConf] = field(default=dns.ResolvConf)
    host_file: Callable[[], str] = field(default=str)
