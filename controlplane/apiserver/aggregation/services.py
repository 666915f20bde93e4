"""The APIServices as they are: one watch on the cache keeps them at hand, by name and by group version.

Made by ``assembly.aggregation``. ``proxy`` has its table kept by it; whoever else must know of changes waits for them.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion
from component import logs
from controlplane.apiserver.aggregation.registered import Registered, registered
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.storage.interface import StorageUnavailableError, WatchOptions

Object = dict[str, Any]
_RETRY_SECONDS = 1.0
_log = logs.get(__name__)


class APIServices:
    """Run :meth:`follow` for as long as the server lives. ``objects`` are shared: nobody changes them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.objects: dict[str, Object] = {}
        self.held: dict[str, Registered] = {}
        self.remote: dict[GroupVersion, Registered] = {}
        """Those that name a Service."""
        self.order = 0
        """Grows when what discovery says of them changes, which their availability does not."""
        self.synced = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call it after each change, in the turn of the loop that brings it; it must not wait."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        while True:
            try:
                await self._read()
            except (StatusError, StorageUnavailableError) as problem:
                _log.warning("Cannot follow APIServices, trying again", err=problem)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self) -> None:
        """From the present state on, until the watch ends."""
        watch = await self._store.watch("", WatchOptions())
        fresh: dict[str, Object] = {}
        caught_up = False

        def begin() -> None:
            nonlocal caught_up
            caught_up = True
            self.take(fresh.values())

        def soon() -> None:  # when what the watch gave last has been looked at
            asyncio.get_running_loop().call_soon(begin)

        watch.when_caught_up(soon)
        try:
            while frames := await watch.batch():
                for frame in frames:
                    if frame.type == "DELETED":
                        fresh.pop(frame.entry.key, None)
                    elif frame.type in ("ADDED", "MODIFIED"):
                        fresh[frame.entry.key] = frame.entry.decode()
                if caught_up:  # a part of what there is would be taken for all of it
                    self.take(fresh.values())
        finally:
            watch.close()

    def take(self, objects: Iterable[Object]) -> None:
        """These are all there are."""
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}
        before = self.held
        self.held = {name: registered(obj) for name, obj in self.objects.items()}
        self.remote = {one.version: one for one in self.held.values() if one.service is not None}
        if _listing(before) != _listing(self.held):
            self.order += 1
        self.synced.set()
        for listener in self._listeners:
            listener()


def _listing(held: dict[str, Registered]) -> dict[str, tuple[object, ...]]:
    return {name: (one.version, one.group_priority, one.version_priority, one.service) for name, one in held.items()}
