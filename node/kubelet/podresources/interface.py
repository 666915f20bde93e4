"""What the pod resources API asks of the resource managers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from node.kubelet.cm.device_manager.devices import Device, Given
from node.kubelet.cm.dra.state import ClaimInfo
from node.kubelet.cm.memory_manager.state import Block

Pod = Mapping[str, Any]
Container = Mapping[str, Any]


class DeviceSource(Protocol):
    """``cm.device_manager.manager.DeviceManager``."""

    def given(self, uid: str, container: str) -> Mapping[str, Given]: ...

    def allocatable(self) -> Mapping[str, Mapping[str, Device]]: ...


class ResourceSource(Protocol):
    """CPUs and memory: ``cm.container_manager.ContainerManager``."""

    def exclusive_cpus(self, uid: str, container: str) -> Collection[int]:
        """Those that nobody else may use."""
        ...

    def allocatable_cpus(self) -> Collection[int]:
        """Those that could be given to somebody alone."""
        ...

    def memory_of(self, uid: str, container: str) -> Sequence[Block]: ...

    def allocatable_memory(self) -> Sequence[Block]: ...


class ClaimSource(Protocol):
    """``cm.dra.manager.DraManager``."""

    def claims_of(self, pod: Pod, container: Container) -> Sequence[ClaimInfo]: ...
