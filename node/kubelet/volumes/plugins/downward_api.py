"""downwardAPI: fields of the pod itself as files, which follow its labels and annotations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from component.clock import Clock
from node.kubelet.interface import Mount
from node.kubelet.volumes import projection, wrapped
from node.kubelet.volumes.contract import VolumeRequest


@dataclass(frozen=True, slots=True)
class DownwardAPI:
    allocatable: Callable[[], Mapping[str, str]]
    clock: Clock
    name: str = "kubernetes.io/downward-api"
    refreshes: bool = True

    async def set_up(self, request: VolumeRequest) -> Mount:
        mode = projection.default_mode(request.source)
        items = request.source.get("items") or ()
        files = projection.downward_files(request.pod, items, mode, self.allocatable())
        return await wrapped.publish(request, files, self.clock.now(), memory=True)
