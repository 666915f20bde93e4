"""configMap: the keys of a ConfigMap as files."""

from dataclasses import dataclass

from component.clock import Clock
from node.kubelet.interface import Mount, ObjectSource
from node.kubelet.volumes import objects, projection, wrapped
from node.kubelet.volumes.contract import VolumeRequest


@dataclass(frozen=True, slots=True)
class ConfigMap:
    source: ObjectSource
    clock: Clock
    name: str = "kubernetes.io/configmap"
    refreshes: bool = True

    async def set_up(self, request: VolumeRequest) -> Mount:
        mode = projection.default_mode(request.source)
        files = await objects.config_map_files(self.source, request.namespace, request.source, mode)
        return await wrapped.publish(request, files, self.clock.now(), memory=False)
