"""Watches a folder for the sockets of plugins and introduces each to the handler of its type. ``kubelet.py`` runs it.

A socket that appears is asked who it is; the handler for its type accepts it or says why not, and the plugin is told. What
could not be registered is tried again, with growing pauses. A socket that goes, or is made anew, is a plugin that has gone.
"""

import asyncio
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio

from component import logs
from component.clock import Clock
from component.local_grpc import local_channel
from node.kubelet.pluginregistration.api import registration_v1_pb2 as pb
from node.kubelet.pluginregistration.api import registration_v1_pb2_grpc as services

_PERIOD = 1.0  # a look at one folder; upstream gets the same promptness from inotify
_ANSWER_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 120.0
_log = logs.get(__name__)


class RegistrationError(Exception):
    """The plugin is not wanted; the text is sent to it."""


class Handler(Protocol):
    """What becomes of the plugins of one type."""

    async def register(self, name: str, endpoint: str, versions: list[str]) -> None:
        """Raises RegistrationError. Registering again under the same name replaces."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None: ...


@dataclass(slots=True)
class _Found:
    identity: tuple[int, int, int]
    type: str = ""
    name: str = ""
    endpoint: str = ""
    registered: bool = False
    pause: float = _FIRST_PAUSE
    again_at: float = 0.0


@dataclass(slots=True)
class PluginWatcher:
    """``handlers`` by type, such as ``CSIPlugin``. Of the types in ``several`` there may be several plugins of one name, and
    the handler hears of each that goes; of the others, only of the last."""

    folder: Path
    handlers: Mapping[str, Handler]
    clock: Clock
    several: Collection[str] = ()
    _held: dict[Path, _Found] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            await self.look()
            await self.clock.sleep(_PERIOD)

    async def look(self) -> None:
        """One pass; whatever a plugin does wrong ends here."""
        found = await asyncio.to_thread(sockets, self.folder)
        for path, held in list(self._held.items()):
            if found.get(path) != held.identity and await self._is_let_go(path, held):
                del self._held[path]
        for path, identity in found.items():
            held = self._held.setdefault(path, _Found(identity))
            if not held.registered and self.clock.monotonic() >= held.again_at:
                await self._introduce(path, held)

    async def _is_let_go(self, path: Path, gone: _Found) -> bool:
        """False if that failed and must be tried again."""
        others = [held for other, held in self._held.items() if other != path and held.registered and held.name == gone.name]
        if not gone.registered or (others and gone.type not in self.several):
            return True
        _log.info("A plugin has gone", type=gone.type, plugin=gone.name)
        try:
            await self.handlers[gone.type].deregister(gone.name, gone.endpoint)
        except (RegistrationError, OSError) as error:
            _log.warning("A plugin that has gone could not be taken off the node", plugin=gone.name, err=error)
            return False
        return True

    async def _introduce(self, path: Path, held: _Found) -> None:
        try:
            await self._register(path, held)
        except (RegistrationError, grpc.aio.AioRpcError, OSError) as error:
            told = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
            _log.warning("A plugin could not be registered", socket=path, err=told)
            held.again_at = self.clock.monotonic() + held.pause
            held.pause = min(held.pause * 2, _LONGEST_PAUSE)

    async def _register(self, path: Path, held: _Found) -> None:
        async with local_channel(f"unix:{path}") as channel:
            stub = services.RegistrationStub(channel)  # type: ignore[no-untyped-call]
            info = await stub.GetInfo(pb.InfoRequest(), timeout=_ANSWER_SECONDS)
            held.type, held.name, held.endpoint = info.type, info.name, info.endpoint or str(path)
            try:
                handler = self.handlers.get(info.type)
                if handler is None:
                    raise RegistrationError(f'no handler registered for plugin type: "{info.type}" at socket {path}')
                await handler.register(info.name, held.endpoint, list(info.supported_versions))
            except RegistrationError as error:
                await stub.NotifyRegistrationStatus(pb.RegistrationStatus(error=str(error)), timeout=_ANSWER_SECONDS)
                raise
            held.registered = True
            _log.info("Registered a plugin", type=info.type, plugin=info.name, endpoint=held.endpoint)
            await stub.NotifyRegistrationStatus(pb.RegistrationStatus(plugin_registered=True), timeout=_ANSWER_SECONDS)


def sockets(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """The sockets at and below a folder, each with what tells it from one that was made anew at the same place."""
    found: dict[Path, tuple[int, int, int]] = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(top, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if not name.startswith(".") and stat.S_ISSOCK(status.st_mode):
                found[path] = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return found
