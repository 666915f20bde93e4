"""The DRA drivers of this node: their plugins, as they register and go, and their ResourceSlices, which go with them.

``pluginregistration.watcher`` registers plugins here; ``manager`` takes them by the driver's name. A driver may have several
plugins at a time while it is being replaced: the newest that can be reached is asked. When none can be reached for half a
minute, the driver's slices of this node are deleted, so that no more pods come for its devices; so are all slices of the node
when the kubelet starts, as no driver is there yet. Rules: upstream's ``pkg/kubelet/cm/dra/plugin``.
"""

import asyncio
import random
from contextlib import suppress

from apimachinery.errors import StatusError
from apimachinery.resources import NODES, RESOURCE_SLICES
from client.rest import Client
from component import logs
from component.clock import Clock
from node.kubelet.cm.dra.metrics import DraMetrics
from node.kubelet.cm.dra.plugin import SERVICES, Plugin
from node.kubelet.cm.interface import DraError
from node.kubelet.pluginregistration.watcher import RegistrationError

WIPING_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE, _JITTER = 1.0, 300.0, 0.2
_log = logs.get(__name__)


class DraRegistry:
    """Fulfils ``pluginregistration.watcher.Handler`` for ``DRAPlugin``."""

    def __init__(
        self, client: Client, node_name: str, clock: Clock, metrics: DraMetrics, wiping_seconds: float = WIPING_SECONDS
    ) -> None:
        self._client, self._node_name, self._clock = client, node_name, clock
        self._metrics, self._delay = metrics, wiping_seconds
        self._plugins: dict[str, list[Plugin]] = {}
        self._watches: dict[Plugin, asyncio.Task[None]] = {}
        self._wipes: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Owns what goes on in the background, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._wipe(""), name="wipe:")
            for plugins in self._plugins.values():
                for plugin in plugins:
                    self._watch(group, plugin)
            await asyncio.Event().wait()

    def plugin(self, driver: str) -> Plugin:
        """Raises DraError for a driver that is not there."""
        found = self._plugins.get(driver)
        if not found:
            raise DraError(f"DRA driver {driver} is not registered")
        return next((plugin for plugin in reversed(found) if plugin.connected), found[-1])

    async def register(self, name: str, endpoint: str, versions: list[str]) -> None:
        where = f"DRA driver plugin {name} at endpoint {endpoint}"
        if not versions:
            raise RegistrationError(
                f"invalid supported gRPC versions of {where}: empty list of supported gRPC services (aka supported versions)"
            )
        service = next((version for version in versions if version in SERVICES), None)
        if service is None:
            theirs, ours = (" ".join(f'"{each}"' for each in listed) for listed in (versions, SERVICES))
            text = f"none of services supported by the plugin ([{theirs}]) are supported by the kubelet ([{ours}])"
            raise RegistrationError(f"invalid supported gRPC versions of {where}: {text}")
        if any(plugin.endpoint == endpoint for plugin in self._plugins.get(name, ())):
            raise RegistrationError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        plugin = Plugin(name, endpoint, service, self._clock, self._metrics)
        self._plugins.setdefault(name, []).append(plugin)
        if self._group is not None:
            self._watch(self._group, plugin)
        self._sync(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        held = self._plugins.get(name, [])
        for plugin in [each for each in held if each.endpoint == endpoint]:
            held.remove(plugin)
            if not held:
                del self._plugins[name]
            if (watch := self._watches.pop(plugin, None)) is not None:
                watch.cancel()
            await plugin.close()
            self._sync(name)

    def _watch(self, group: asyncio.TaskGroup, plugin: Plugin) -> None:
        self._watches[plugin] = group.create_task(plugin.watch(lambda: self._sync(plugin.driver)), name=f"watch:{plugin.driver}")

    # Slices of drivers that have gone

    def _sync(self, driver: str) -> None:
        """After anything has changed about a driver's plugins: is there still one?"""
        pending = self._wipes.get(driver)
        if any(plugin.connected for plugin in self._plugins.get(driver, ())):
            if pending is not None:
                pending.cancel()
                del self._wipes[driver]
        elif (pending is None or pending.done()) and self._group is not None:
            self._wipes[driver] = self._group.create_task(self._wipe_later(driver), name=f"wipe:{driver}")

    async def _wipe_later(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self._wipe(driver)

    async def _wipe(self, driver: str) -> None:
        """Delete the slices of this node, of one driver or of all; goes on until it has succeeded."""
        pause = _FIRST_PAUSE
        selector = f"spec.nodeName={self._node_name}" + (f",spec.driver={driver}" if driver else "")
        while True:
            with suppress(StatusError, OSError):
                await self._client.get(NODES, self._node_name)  # deletes nothing for a node that is not there yet
                await self._delete(selector)
                return
            await self._clock.sleep(pause * random.uniform(1, 1 + _JITTER))  # noqa: S311 - spreads load
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _delete(self, selector: str) -> None:
        try:
            await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
            _log.v(2, "Deleted ResourceSlices", selector=selector)
        except StatusError as error:
            if error.code != 404:  # a server that knows no devices
                raise
