"""The node service of one CSI driver: gRPC calls on its socket, failures as VolumeError in Go's words.

Made by ``registry`` when a driver registers; ``plugin`` calls it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from component.local_grpc import local_channel
from node.kubelet.interface import VolumeError
from node.kubelet.volumes.csi.api import csi_v1_pb2 as pb
from node.kubelet.volumes.csi.api import csi_v1_pb2_grpc as services

CALL_SECONDS = 120.0
Capability = pb.NodeServiceCapability.RPC
Strings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Volume:
    """What every call about one volume says. ``staging`` is empty for drivers that stage nothing."""

    handle: str
    capability: pb.VolumeCapability
    staging: str = ""
    publish_context: Strings = field(default_factory=dict)
    volume_context: Strings = field(default_factory=dict)


class Driver:
    """Make it inside the event loop; close it when the driver is gone."""

    def __init__(self, name: str, endpoint: str) -> None:
        self.name, self.endpoint = name, endpoint
        self._channel = local_channel(f"unix:{endpoint}")
        self._node = services.NodeStub(self._channel)  # type: ignore[no-untyped-call]
        self._capabilities: frozenset[int] | None = None

    async def close(self) -> None:
        await self._channel.close()

    async def info(self) -> pb.NodeGetInfoResponse:
        answer: pb.NodeGetInfoResponse = await self._call(self._node.NodeGetInfo, pb.NodeGetInfoRequest())
        return answer

    async def can(self, capability: int) -> bool:
        if self._capabilities is None:
            answer = await self._call(self._node.NodeGetCapabilities, pb.NodeGetCapabilitiesRequest())
            self._capabilities = frozenset(each.rpc.type for each in answer.capabilities)
        return capability in self._capabilities

    async def stage(self, volume: Volume, secrets: Strings) -> None:
        request = pb.NodeStageVolumeRequest(
            volume_id=volume.handle,
            publish_context=volume.publish_context,
            staging_target_path=volume.staging,
            volume_capability=volume.capability,
            secrets=secrets,
            volume_context=volume.volume_context,
        )
        await self._call(self._node.NodeStageVolume, request)

    async def unstage(self, handle: str, staging: str) -> None:
        request = pb.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=staging)
        await self._call(self._node.NodeUnstageVolume, request)

    async def publish(self, volume: Volume, target: str, secrets: Strings, *, read_only: bool) -> None:
        request = pb.NodePublishVolumeRequest(
            volume_id=volume.handle,
            publish_context=volume.publish_context,
            staging_target_path=volume.staging,
            target_path=target,
            volume_capability=volume.capability,
            readonly=read_only,
            secrets=secrets,
            volume_context=volume.volume_context,
        )
        await self._call(self._node.NodePublishVolume, request)

    async def unpublish(self, handle: str, target: str) -> None:
        await self._call(self._node.NodeUnpublishVolume, pb.NodeUnpublishVolumeRequest(volume_id=handle, target_path=target))

    async def expand(self, volume: Volume, path: str, size: int, secrets: Strings) -> int:
        """The capacity in bytes that was reached; 0 if the driver does not say."""
        request = pb.NodeExpandVolumeRequest(
            volume_id=volume.handle,
            volume_path=path,
            capacity_range=pb.CapacityRange(required_bytes=size),
            staging_target_path=volume.staging,
            volume_capability=volume.capability,
            secrets=secrets,
        )
        answer = await self._call(self._node.NodeExpandVolume, request)
        return int(answer.capacity_bytes)

    async def stats(self, handle: str, path: str, staging: str) -> pb.NodeGetVolumeStatsResponse:
        request = pb.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=path, staging_target_path=staging)
        answer: pb.NodeGetVolumeStatsResponse = await self._call(self._node.NodeGetVolumeStats, request)
        return answer

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            code = "".join(part.capitalize() for part in error.code().name.split("_"))
            raise VolumeError(f"rpc error: code = {code} desc = {error.details()}") from None
