"""secret: the keys of a Secret as files on tmpfs, so that they never reach a disk."""

from dataclasses import dataclass

from component.clock import Clock
from node.kubelet.interface import Mount, ObjectSource
from node.kubelet.volumes import objects, projection, wrapped
from node.kubelet.volumes.contract import VolumeRequest


@dataclass(frozen=True, slots=True)
class Secret:
    source: ObjectSource
    clock: Clock
    name: str = "kubernetes.io/secret"
    refreshes: bool = True

    async def set_up(self, request: VolumeRequest) -> Mount:
        source = request.source
        mode = projection.default_mode(source)
        files = await objects.secret_files(self.source, request.namespace, source["secretName"], source, mode)
        return await wrapped.publish(request, files, self.clock.now(), memory=True)
