"""image: the content of an OCI image as a read-only volume. The runtime pulls and mounts it; here it is only named."""

from dataclasses import dataclass
from pathlib import Path

from node.kubelet.interface import Mount
from node.kubelet.volumes.contract import VolumeRequest


@dataclass(frozen=True, slots=True)
class Image:
    name: str = "kubernetes.io/image"
    refreshes: bool = False

    async def set_up(self, request: VolumeRequest) -> Mount:
        reference, policy = str(request.source.get("reference") or ""), str(request.source.get("pullPolicy") or "")
        return Mount(Path(), read_only=True, image=reference, image_policy=policy)
