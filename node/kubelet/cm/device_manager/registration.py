"""Where device plugins register: the kubelet's socket, and the watched folder of plugins. ``manager`` hears what they offer.

Who registers is connected to and then followed until its list of devices ends. The newest of a resource counts: one that
registers again takes the place of its former self. Sources: upstream's ``devicemanager/plugin/v1beta1``.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio

from apimachinery.names import is_extended_resource
from component import logs
from component.clock import Clock
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2 as pb
from node.kubelet.cm.device_manager.api import deviceplugin_v1beta1_pb2_grpc as services
from node.kubelet.cm.device_manager.devices import Device
from node.kubelet.cm.device_manager.endpoint import Endpoint, PluginError
from node.kubelet.cm.device_manager.metrics import DeviceMetrics
from node.kubelet.pluginregistration.watcher import RegistrationError
from node.kubelet.sockets import clear_sockets, is_socket

VERSION = "v1beta1"
SOCKET = "kubelet.sock"
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 10.0
_MOST_FAILURES = 5
_MESSAGE_BYTES = 64 << 10  # a registration is a few hundred
_log = logs.get(__name__)


class Listener(Protocol):
    """Who wants to know of plugins."""

    def connected(self, endpoint: Endpoint) -> None:
        """A plugin for ``endpoint.resource`` is there; what was there before it is not asked any more."""
        ...

    def offered(self, endpoint: Endpoint, devices: Mapping[str, Device]) -> None:
        """These are all its devices now."""
        ...

    def disconnected(self, endpoint: Endpoint) -> None:
        """It has gone."""
        ...


class Registration(services.RegistrationServicer):
    """Fulfils ``pluginregistration.watcher.Handler`` for ``DevicePlugin``, too."""

    def __init__(self, folder: Path, listener: Listener, metrics: DeviceMetrics, clock: Clock) -> None:
        self._folder, self._listener, self._metrics, self._clock = folder, listener, metrics, clock
        self._followed: dict[str, tuple[Endpoint, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._failures = 0
        self.listening = False

    async def run(self) -> None:
        """Serve until cancelled. The sockets of a former life are removed, by which plugins see that they must register."""
        while True:
            try:
                await self._serve()
            except (OSError, RuntimeError) as error:  # grpc says RuntimeError for a socket that cannot be bound
                self._failures += 1
                _log.warning("Cannot let device plugins register", folder=self._folder, err=error)
            await self._clock.sleep(_RETRY_SECONDS)

    def problem(self) -> str:
        """For ``/healthz``; "" if all is well."""
        if self._failures >= _MOST_FAILURES:
            return "device plugin registration gRPC server failed and no device plugins can register"
        return ""

    async def _serve(self) -> None:
        await asyncio.to_thread(clear_sockets, self._folder)
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", _MESSAGE_BYTES)])
        services.add_RegistrationServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix:{self._folder / SOCKET}")
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await server.start()
                self._failures, self.listening = 0, True
                _log.info("Device plugins may register", socket=self._folder / SOCKET)
                await self._until_removed()
            finally:
                self._group, self.listening = None, False
                for _, task in self._followed.values():
                    task.cancel()
                await server.stop(None)

    async def _until_removed(self) -> None:
        """Plugins find the socket by its path: when somebody has removed it, it must be made again."""
        while await asyncio.to_thread(is_socket, self._folder / SOCKET):
            await self._clock.sleep(_LOOK_SECONDS)
        _log.warning("The socket for device plugins was removed, making it again", socket=self._folder / SOCKET)

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """A plugin's own call."""
        self._metrics.registered(request.resource_name)
        try:
            check(request.resource_name, [request.version])
            await self._follow(request.resource_name, self._beside(request.endpoint))
        except (RegistrationError, PluginError) as error:
            _log.warning("A device plugin was refused", resource=request.resource_name, endpoint=request.endpoint, err=error)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return pb.Empty()

    def _beside(self, endpoint: str) -> Path:
        """A plugin names its socket, which lies beside the kubelet's. Raises RegistrationError."""
        if not endpoint or "/" in endpoint or endpoint in (".", "..", SOCKET):
            raise RegistrationError(f'bad endpoint "{endpoint}": it must be the name of a socket in {self._folder}')
        return self._folder / endpoint

    async def register(self, name: str, endpoint: str, versions: list[str]) -> None:
        """A plugin that was found in the watched folder."""
        self._metrics.registered(name)
        if VERSION not in versions:
            raise RegistrationError(f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]")
        if not is_extended_resource(name):
            raise RegistrationError(f'invalid name of device plugin socket: the ResourceName "{name}" is invalid')
        try:
            await self._follow(name, Path(endpoint))
        except PluginError as error:
            raise RegistrationError(str(error)) from None

    async def deregister(self, name: str, endpoint: str) -> None:
        endpoint_now, task = self._followed.get(name, (None, None))
        if endpoint_now is not None and task is not None and str(endpoint_now.path) == endpoint:
            task.cancel()

    async def _follow(self, resource: str, path: Path) -> None:
        if self._group is None:
            raise RegistrationError("the kubelet is not ready for device plugins yet, try again")
        endpoint = await Endpoint.connect(resource, path)
        group = self._group
        if group is None:
            await endpoint.close()
            raise RegistrationError("the kubelet stops")
        former = self._followed.get(resource)
        self._listener.connected(endpoint)
        self._followed[resource] = endpoint, group.create_task(self._watch(endpoint), name=f"device plugin {resource}")
        if former is not None:
            former[1].cancel()
        _log.info("A device plugin has registered", resource=resource, endpoint=path)

    async def _watch(self, endpoint: Endpoint) -> None:
        """A plugin's life. Whatever it does wrong ends here."""
        why: object = "the plugin ended its list"
        try:
            async with contextlib.aclosing(endpoint.watch()) as told:
                async for devices in told:
                    self._listener.offered(endpoint, devices)
        except PluginError as error:
            why = error
        except asyncio.CancelledError:
            why = "another has registered in its place, or the kubelet stops"
            raise
        finally:
            _log.info("A device plugin has gone", resource=endpoint.resource, endpoint=endpoint.path, err=why)
            if self._followed.get(endpoint.resource, (None,))[0] is endpoint:
                del self._followed[endpoint.resource]
            self._listener.disconnected(endpoint)
            await endpoint.close()


def check(resource: str, versions: list[str]) -> None:
    """Raises RegistrationError, in upstream's words. Pure."""
    if VERSION not in versions:
        asked = versions[0] if versions else ""
        text = f'requested API version "{asked}" is not supported by kubelet. Supported version is ["{VERSION}"]'
        raise RegistrationError(text)
    if not is_extended_resource(resource):
        raise RegistrationError(f'the ResourceName "{resource}" is invalid')
