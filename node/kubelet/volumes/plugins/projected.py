"""projected: several sources in one directory; the service account's token among them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from component.clock import Clock
from node.kubelet.interface import Mount, ObjectSource, VolumeError
from node.kubelet.volumes import objects, projection, trust_bundles, wrapped
from node.kubelet.volumes.atomic import File
from node.kubelet.volumes.contract import VolumeRequest
from node.kubelet.volumes.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Projected:
    source: ObjectSource
    tokens: Tokens
    allocatable: Callable[[], Mapping[str, str]]
    clock: Clock
    name: str = "kubernetes.io/projected"
    refreshes: bool = True

    async def set_up(self, request: VolumeRequest) -> Mount:
        mode = projection.default_mode(request.source)
        files: dict[str, File] = {}
        for part in request.source.get("sources") or ():
            files |= await self._files(request, part, mode)
        return await wrapped.publish(request, files, self.clock.now(), memory=True)

    async def _files(self, request: VolumeRequest, part: Mapping[str, Any], mode: int) -> dict[str, File]:
        if (source := part.get("serviceAccountToken")) is not None:
            return {source["path"]: await self._token(request, source, mode)}
        if (source := part.get("configMap")) is not None:
            return await objects.config_map_files(self.source, request.namespace, source, mode)
        if (source := part.get("secret")) is not None:
            return await objects.secret_files(self.source, request.namespace, source["name"], source, mode)
        if (source := part.get("downwardAPI")) is not None:
            return projection.downward_files(request.pod, source.get("items") or (), mode, self.allocatable())
        if (source := part.get("clusterTrustBundle")) is not None:
            return {source["path"]: File(await trust_bundles.anchors(self.source, source), mode)}
        raise VolumeError(f"projected source {next(iter(part), 'without a kind')} is not supported by this kubelet")

    async def _token(self, request: VolumeRequest, source: Mapping[str, Any], mode: int) -> File:
        text = await self.tokens.get(request.pod, source.get("audience") or "", int(source.get("expirationSeconds") or 3600))
        # Whoever is named as user or group of the pod must be able to read it, and then nobody else (upstream's rule).
        owner = request.fs_user
        if owner is not None or request.fs_group is not None:
            mode = 0o600
        return File(text.encode(), mode, owner)
