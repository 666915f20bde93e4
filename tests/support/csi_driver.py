"""A CSI driver for tests, on real sockets: volumes are folders, staged and published by real bind mounts.

Runs in the test's process (``running_csi_driver``) or, for a whole cluster, as a program of its own:
``python -m tests.support.csi_driver ROOT KUBELET_ROOT``. It keeps what it was told, so that tests can look at it, and fails
calls on request. It has no controller service: tests play provisioner and attacher.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from node.kubelet.pluginregistration.api import registration_v1_pb2 as registration
from node.kubelet.pluginregistration.api import registration_v1_pb2_grpc as registration_services
from node.kubelet.volumes import mounts
from node.kubelet.volumes.csi.api import csi_v1_pb2 as pb
from node.kubelet.volumes.csi.api import csi_v1_pb2_grpc as services

NAME = "folders.csi.example.com"
Types = pb.NodeServiceCapability.RPC
EVERYTHING = (Types.STAGE_UNSTAGE_VOLUME, Types.GET_VOLUME_STATS, Types.EXPAND_VOLUME)


@dataclass
class FolderDriver(services.NodeServicer, registration_services.RegistrationServicer):
    """``root`` holds ``volumes/<handle>``. ``calls`` are (method, request) in order; ``failing`` maps methods to errors."""

    root: Path
    node_id: str = "node-1"
    capabilities: Sequence[int] = EVERYTHING
    topology: dict[str, str] = field(default_factory=dict)
    most: int = 0
    versions: Sequence[str] = ("1.0.0",)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    registered: list[tuple[bool, str]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        return self.root / "csi.sock"

    def folder(self, handle: str) -> Path:
        return self.root / "volumes" / handle

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def _called(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        if method in self.failing:
            await context.abort(grpc.StatusCode.INTERNAL, self.failing[method])

    # Registration

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return registration.PluginInfo(type="CSIPlugin", name=NAME, endpoint=str(self.socket), supported_versions=self.versions)

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.registered.append((request.plugin_registered, request.error))
        return registration.RegistrationStatusResponse()

    # Node

    async def NodeGetInfo(self, request: Any, context: Any) -> Any:
        await self._called("NodeGetInfo", request, context)
        topology = pb.Topology(segments=self.topology)
        return pb.NodeGetInfoResponse(node_id=self.node_id, max_volumes_per_node=self.most, accessible_topology=topology)

    async def NodeGetCapabilities(self, request: Any, context: Any) -> Any:
        listed = [pb.NodeServiceCapability(rpc=Types(type=each)) for each in self.capabilities]
        return pb.NodeGetCapabilitiesResponse(capabilities=listed)

    async def NodeStageVolume(self, request: Any, context: Any) -> Any:
        await self._called("NodeStageVolume", request, context)
        self.folder(request.volume_id).mkdir(parents=True, exist_ok=True)
        _bind(self.folder(request.volume_id), Path(request.staging_target_path))
        return pb.NodeStageVolumeResponse()

    async def NodeUnstageVolume(self, request: Any, context: Any) -> Any:
        await self._called("NodeUnstageVolume", request, context)
        _unbind(Path(request.staging_target_path))
        return pb.NodeUnstageVolumeResponse()

    async def NodePublishVolume(self, request: Any, context: Any) -> Any:
        await self._called("NodePublishVolume", request, context)
        source = Path(request.staging_target_path) if request.staging_target_path else self.folder(request.volume_id)
        source.mkdir(parents=True, exist_ok=True)
        if request.volume_capability.HasField("block"):
            _bind_file(source / "device", Path(request.target_path))
        else:
            _bind(source, Path(request.target_path))
        return pb.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(self, request: Any, context: Any) -> Any:
        await self._called("NodeUnpublishVolume", request, context)
        target = Path(request.target_path)
        _unbind(target)
        if target.is_dir():
            target.rmdir()
        if request.volume_id.startswith("csi-"):
            shutil.rmtree(self.folder(request.volume_id), ignore_errors=True)
        return pb.NodeUnpublishVolumeResponse()

    async def NodeGetVolumeStats(self, request: Any, context: Any) -> Any:
        await self._called("NodeGetVolumeStats", request, context)
        usage = [
            pb.VolumeUsage(available=70, total=100, used=30, unit=pb.VolumeUsage.BYTES),
            pb.VolumeUsage(available=7, total=10, used=3, unit=pb.VolumeUsage.INODES),
        ]
        return pb.NodeGetVolumeStatsResponse(usage=usage)

    async def NodeExpandVolume(self, request: Any, context: Any) -> Any:
        await self._called("NodeExpandVolume", request, context)
        self.sizes[request.volume_id] = request.capacity_range.required_bytes
        return pb.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)


def _bind(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if mounts.mounted_as(target) is None:
        mounts.bind(str(source), str(target))


def _bind_file(source: Path, target: Path) -> None:
    """Stands for a device: what counts is that a single file is mounted over a single file."""
    for path in (source, target):
        path.touch()
    if mounts.mounted_as(target) is None:
        mounts.bind(str(source), str(target))


def _unbind(target: Path) -> None:
    while mounts.mounted_as(target) is not None:
        mounts.unmount(target)


@asynccontextmanager
async def running_csi_driver(driver: FolderDriver, kubelet_root: Path) -> AsyncIterator[FolderDriver]:
    """Serve both sockets; the registration socket goes first at the end, as a node-driver-registrar's does."""
    announced = kubelet_root / "plugins_registry" / f"{NAME}-reg.sock"
    announced.parent.mkdir(parents=True, exist_ok=True)
    for path in (driver.socket, announced):
        path.unlink(missing_ok=True)
    driver.root.mkdir(parents=True, exist_ok=True)
    server = grpc.aio.server()
    services.add_NodeServicer_to_server(driver, server)
    registration_services.add_RegistrationServicer_to_server(driver, server)
    server.add_insecure_port(f"unix:{driver.socket}")
    server.add_insecure_port(f"unix:{announced}")
    await server.start()
    try:
        yield driver
    finally:
        announced.unlink(missing_ok=True)
        await server.stop(0.1)
        driver.socket.unlink(missing_ok=True)


async def _main(root: str, kubelet_root: str) -> None:
    async with running_csi_driver(FolderDriver(Path(root), node_id=os.uname().nodename), Path(kubelet_root)):
        print("serving", flush=True)  # noqa: T201 - whoever started this waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
