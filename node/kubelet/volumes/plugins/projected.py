"""projected: several sources in one directory; the service account's token among them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from component.clock import Clock
from node.kubelet.interface import Mount, ObjectSource, VolumeError
from node.kubelet.volumes import objects, projection, trust_bundles, wrapped
from node.kubelet.volumes.atomic import File
from node.kubelet.volumes.contract import VolumeRequest
from node.kubelet.volumes.pod_certificates import PodCertificates
from node.kubelet.volumes.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Projected:
    source: ObjectSource
    tokens: Tokens
    allocatable: Callable[[], Mapping[str, str]]
    clock: Clock
    certificates: PodCertificates | None = None
    name: str = "kubernetes.io/projected"
    refreshes: bool = True

    async def set_up(self, request: VolumeRequest) -> Mount:
        mode = projection.default_mode(request.source)
        files: dict[str, File] = {}
        for index, part in enumerate(request.source.get("sources") or ()):
            if (source := part.get("podCertificate")) is not None:
                files |= await self._certificate(request, index, source, mode)
            else:
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

    async def _certificate(self, request: VolumeRequest, index: int, source: Mapping[str, Any], mode: int) -> dict[str, File]:
        if self.certificates is None:
            raise VolumeError("pod certificates are not enabled in this kubelet (feature gate PodCertificateRequest)")
        bundle = await self.certificates.bundle(request.pod, request.name, index, source)
        contents = {
            "credentialBundlePath": bundle.key + bundle.chain,
            "keyPath": bundle.key,
            "certificateChainPath": bundle.chain,
        }
        mode, owner = self._private(request, mode)
        return {str(source[field]): File(content, mode, owner) for field, content in contents.items() if source.get(field)}

    @staticmethod
    def _private(request: VolumeRequest, mode: int) -> tuple[int, int | None]:
        """Whoever is named as user or group of the pod must be able to read it, and then nobody else (upstream's rule)."""
        owner = request.fs_user
        return (0o600 if owner is not None or request.fs_group is not None else mode), owner

    async def _token(self, request: VolumeRequest, source: Mapping[str, Any], mode: int) -> File:
        text = await self.tokens.get(request.pod, source.get("audience") or "", int(source.get("expirationSeconds") or 3600))
        mode, owner = self._private(request, mode)
        return File(text.encode(), mode, owner)
