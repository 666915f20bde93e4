"""One device plugin, over its socket. ``registration`` makes one when a plugin registers; ``manager`` allocates through it.

The four quick calls have a deadline, so that a plugin that hangs cannot hold its callers for ever. Allocate has none, as
upstream's: a plugin may have to program its devices; it ends when the plugin's connection does, or with the pod.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from component.local_grpc import local_channel
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2_grpc as services
from node.kubelet.cm.device_manager.decide import Question
from node.kubelet.cm.device_manager.devices import Device, devices_of
from node.kubelet.sockets import is_socket

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
_PRE_START_SECONDS = 30.0


class PluginError(Exception):
    """A plugin cannot be reached, or has refused; the text is as Go shows it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a plugin wants to be asked."""

    pre_start: bool = False
    preferred: bool = False


class Endpoint:
    """Make it inside the event loop with :meth:`connect`; close it when the plugin is gone."""

    def __init__(self, resource: str, path: Path, channel: grpc.aio.Channel, options: Options) -> None:
        self.resource, self.path, self.options = resource, path, options
        self._channel = channel
        self._stub = services.DevicePluginStub(channel)  # type: ignore[no-untyped-call]

    @classmethod
    async def connect(cls, resource: str, path: Path) -> "Endpoint":
        """Reach the plugin and ask what it wants. Raises PluginError."""
        check_socket(path)
        channel = local_channel(f"unix:{path}")
        try:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await channel.channel_ready()
            except TimeoutError:
                raise PluginError(f"failed to dial device plugin: nobody answers at {path}: context deadline exceeded") from None
            made = cls(resource, path, channel, Options())
            try:
                told = await made._call(made._stub.GetDevicePluginOptions, pb.Empty(), _ANSWER_SECONDS)
            except PluginError as error:
                raise PluginError(f"failed to get device plugin options: {error}") from None
        except BaseException:
            await channel.close()
            raise
        made.options = Options(told.pre_start_required, told.get_preferred_allocation_available)
        return made

    async def close(self) -> None:
        """Calls under way end with an error."""
        await self._channel.close()

    async def watch(self) -> AsyncGenerator[dict[str, Device], None]:
        """All devices, each time that the plugin tells them. Ends, or raises PluginError, when the plugin has gone."""
        call = self._stub.ListAndWatch(pb.Empty())
        try:
            async for told in call:
                yield devices_of(told.devices)
        except grpc.aio.AioRpcError as error:
            raise PluginError(described(error)) from None
        finally:
            call.cancel()

    async def prefer(self, asked: Question) -> list[str]:
        """Which devices the plugin would rather give. Raises PluginError."""
        request = pb.ContainerPreferredAllocationRequest(
            available_device_ids=sorted(asked.available),
            must_include_device_ids=sorted(asked.must_include),
            allocation_size=asked.size,
        )
        whole = pb.PreferredAllocationRequest(container_requests=[request])
        try:
            answer = await self._call(self._stub.GetPreferredAllocation, whole, _ANSWER_SECONDS)
        except PluginError as error:
            raise PluginError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from None
        return list(answer.container_responses[0].device_ids) if answer.container_responses else []

    async def allocate(self, ids: Collection[str]) -> pb.ContainerAllocateResponse:
        """Raises PluginError."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(device_ids=sorted(ids))])
        answer = await self._call(self._stub.Allocate, request, None)
        if not answer.container_responses:
            raise PluginError(f"no containers return in allocation response {answer}".rstrip())
        found: pb.ContainerAllocateResponse = answer.container_responses[0]
        return found

    async def pre_start(self, ids: Collection[str]) -> None:
        """Raises PluginError."""
        request = pb.PreStartContainerRequest(device_ids=sorted(ids))
        try:
            await self._call(self._stub.PreStartContainer, request, _PRE_START_SECONDS)
        except PluginError as error:
            raise PluginError(f"device plugin PreStartContainer rpc failed with err: {error}") from None

    async def _call(self, method: Any, request: Any, seconds: float | None) -> Any:
        try:
            return await method(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise PluginError(described(error)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise PluginError("rpc error: code = Canceled desc = the device plugin has gone") from None  # its channel was closed


def check_socket(path: Path) -> None:
    """A plugin's socket is a socket, not a way to somewhere else. Raises PluginError."""
    if not path.is_absolute():
        raise PluginError(f"bad socketPath, must be an absolute path: {path}")
    if not is_socket(path):
        why = "is not a socket" if os.path.lexists(path) else "does not exist"
        raise PluginError(f"failed to dial device plugin: {path} {why}")


def described(error: grpc.aio.AioRpcError) -> str:
    """As Go prints an error of gRPC."""
    code = "".join(part.capitalize() for part in error.code().name.split("_"))
    return f"rpc error: code = {code} desc = {error.details()}"
