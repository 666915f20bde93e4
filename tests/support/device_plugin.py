"""A device plugin for tests, on real sockets. Its devices are character nodes like ``/dev/null``, in a folder of its own.

Runs in the test's process (``running_device_plugin``) or, for a whole cluster, as a program of its own:
``python -m tests.support.device_plugin ROOT KUBELET_ROOT RESOURCE COUNT``. The program registers again when the kubelet's socket
is made anew, as real plugins do, and takes the ids in ``ROOT/unhealthy`` for unhealthy.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2_grpc as services
from node.kubelet.pluginregistration.api import registration_v1_pb2 as registration
from node.kubelet.pluginregistration.api import registration_v1_pb2_grpc as registration_services

RESOURCE = "example.com/null"
_NULL = os.makedev(1, 3)


@dataclass
class NullPlugin(services.DevicePluginServicer, registration_services.RegistrationServicer):
    """``health`` and ``nodes`` by device id. ``calls`` are (method, request) in order; ``failing`` maps methods to errors, a
    method in ``hanging`` does not answer before ``go_on`` is set. ``answers`` replaces what Allocate says."""

    folder: Path  # where the kubelet's socket is
    devices: Path  # where the nodes are made
    resource: str = RESOURCE
    name: str = "null.sock"
    health: dict[str, str] = field(default_factory=lambda: {"d0": "Healthy", "d1": "Healthy"})
    nodes: Mapping[str, list[int]] = field(default_factory=dict)
    options: pb.DevicePluginOptions = field(default_factory=pb.DevicePluginOptions)
    preferred: list[str] = field(default_factory=list)
    version: str = "v1beta1"
    answers: pb.ContainerAllocateResponse | None = None
    calls: list[tuple[str, Any]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    told: list[tuple[bool, str]] = field(default_factory=list)
    lives: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def socket(self) -> Path:
        return self.folder / self.name

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def change(self, **health: str) -> None:
        """Some devices become Healthy or Unhealthy, or are new; one that is said to be "" goes."""
        async with self._changed:
            self.health = {name: word for name, word in {**self.health, **health}.items() if word}
            self._changed.notify_all()

    async def register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            stub = services.RegistrationStub(channel)  # type: ignore[no-untyped-call]
            await stub.Register(
                pb.RegisterRequest(version=self.version, endpoint=self.name, resource_name=self.resource), timeout=20
            )

    async def _called(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        if method in self.hanging:
            await self.go_on.wait()
        if method in self.failing:
            await context.abort(grpc.StatusCode.UNKNOWN, self.failing[method])

    # DevicePlugin

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        await self._called("GetDevicePluginOptions", request, context)
        return self.options

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._called("ListAndWatch", request, context)
        async with self._changed:
            while True:
                listed = []
                for name, word in self.health.items():
                    places = [pb.NUMANode(ID=node) for node in self.nodes.get(name, [])]
                    listed.append(pb.Device(ID=name, health=word, topology=pb.TopologyInfo(nodes=places) if places else None))
                yield pb.ListAndWatchResponse(devices=listed)
                await self._changed.wait()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:
        await self._called("GetPreferredAllocation", request, context)
        answer = pb.ContainerPreferredAllocationResponse(device_ids=self.preferred)
        return pb.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(self, request: Any, context: Any) -> Any:
        await self._called("Allocate", request, context)
        return pb.AllocateResponse(
            container_responses=[self._answer(list(each.device_ids)) for each in request.container_requests]
        )

    def _answer(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        if self.answers is not None:
            return self.answers
        self.devices.mkdir(exist_ok=True)
        for each in ids:
            with suppress(FileExistsError):
                os.mknod(self.devices / each, stat.S_IFCHR | 0o666, _NULL)
        nodes = [
            pb.DeviceSpec(host_path=str(self.devices / each), container_path=f"/dev/{each}", permissions="rw") for each in ids
        ]
        mount = pb.Mount(host_path=str(self.devices), container_path="/devices", read_only=True)
        return pb.ContainerAllocateResponse(envs={"DEVICES": ",".join(ids)}, mounts=[mount], devices=nodes)

    async def PreStartContainer(self, request: Any, context: Any) -> Any:
        await self._called("PreStartContainer", request, context)
        return pb.PreStartContainerResponse()

    # Registration in the watched folder

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return registration.PluginInfo(
            type="DevicePlugin", name=self.resource, endpoint=str(self.socket), supported_versions=[self.version]
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.told.append((request.plugin_registered, request.error))
        return registration.RegistrationStatusResponse()


@asynccontextmanager
async def running_device_plugin(plugin: NullPlugin, watched: Path | None = None) -> AsyncIterator[NullPlugin]:
    """Serve; the test registers, or gives the ``watched`` folder where a kubelet looks for plugins."""
    plugin.lives += 1
    plugin.name = f"{plugin.lives}-{plugin.name.partition('-')[2] or plugin.name}"  # gRPC unlinks the old one some time later
    server = grpc.aio.server()
    services.add_DevicePluginServicer_to_server(plugin, server)  # type: ignore[no-untyped-call]
    registration_services.add_RegistrationServicer_to_server(plugin, server)  # type: ignore[no-untyped-call]
    plugin.folder.mkdir(parents=True, exist_ok=True)
    server.add_insecure_port(f"unix:{plugin.socket}")
    if watched is not None:
        server.add_insecure_port(f"unix:{watched / plugin.name}")
    await server.start()
    try:
        yield plugin
    finally:
        plugin.go_on.set()
        await server.stop(None)


async def _serve(root: Path, kubelet: Path, resource: str, count: int) -> None:
    root.mkdir(parents=True, exist_ok=True)
    health = {f"d{number}": "Healthy" for number in range(count)}
    plugin = NullPlugin(kubelet / "device-plugins", root / "devices", resource, f"{resource.partition('/')[2]}.sock", health)
    said = False
    while True:
        while not (plugin.folder / "kubelet.sock").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        async with running_device_plugin(plugin):
            with suppress(grpc.aio.AioRpcError):
                await plugin.register()
                if not said:
                    print("serving", flush=True)  # noqa: T201
                    said = True
            while plugin.socket.exists():  # a kubelet that starts removes it
                ill = set((root / "unhealthy").read_text().split()) if (root / "unhealthy").exists() else set()
                wanted = {name: "Unhealthy" if name in ill else "Healthy" for name in plugin.health}
                if wanted != plugin.health:
                    await plugin.change(**wanted)
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
