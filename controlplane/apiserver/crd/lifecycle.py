"""What becomes of a CustomResourceDefinition: its names are accepted, it is established, and its instances go before it does.

Stands for the controllers that upstream runs inside its extension server (``pkg/controller/status``, ``establish``,
``apiapproval``, ``nonstructuralschema``, ``finalizer``). :func:`plan` says what the status should be, :class:`Lifecycle` writes
it; every server does so, and each write begins with what is stored, so that several do no harm. Deleting instances is for
``cleanup``.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from component import logs
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.crd import conditions
from controlplane.apiserver.crd.cleanup import Cleanup
from controlplane.apiserver.crd.conditions import FINALIZER
from controlplane.apiserver.crd.definition import ESTABLISHED, NAMES_ACCEPTED
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.registry.update import STATUS
from controlplane.apiserver.storage.interface import WatchOptions

Object = dict[str, Any]
Clock = Callable[[], datetime]

RETRY_SECONDS = 1.0
HA_SECONDS = 5.0
"""With several servers, how long a definition whose names were accepted waits: each shall serve it before anybody is told."""
_log = logs.get(__name__)


def plan(crd: Object, others: list[Object], now: datetime, *, at_once: bool, schemas: Object | None = None) -> Object:
    """The status of a definition as it should be. ``others`` are the definitions of its group.

    ``at_once``: established as soon as the names are accepted. ``schemas``: what ``conditions.structural`` says of them.
    """
    status = conditions.accept_names(crd, others, now)
    status = conditions.judge(conditions.approve(crd, status, now), schemas, now)
    return conditions.establish(status, now) if at_once else status


def must_wait(status: Object) -> bool:
    """Whether the names are accepted and that is all."""
    return conditions.is_true(status, NAMES_ACCEPTED) and not conditions.is_true(status, ESTABLISHED)


@dataclass(slots=True)
class _Names:
    """What other definitions of a group need to know of one."""

    group: str
    crd: Object
    schemas: Object | None  # what is to be said of its schemas


class Lifecycle:
    """Run :meth:`follow` as long as the server lives."""

    def __init__(self, definitions: Store, cleanup: Cleanup, now: Clock, *, alone: bool) -> None:
        """``alone``: no other server can serve the same objects."""
        self._store, self._cleanup, self._now, self._alone = definitions, cleanup, now, alone
        self._held: dict[str, _Names] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._going: dict[str, asyncio.Task[None]] = {}

    async def follow(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    try:
                        await self._read(tasks)
                    except StatusError as problem:
                        _log.warning("Cannot follow definitions, trying again", err=problem)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        watch = await self._store.watch("", WatchOptions())
        self._held.clear()
        try:
            while frames := await watch.batch():
                changed: dict[str, None] = {}
                for frame in frames:
                    if frame.type in ("ADDED", "MODIFIED", "DELETED"):
                        changed |= self._note(frame.type, frame.entry.decode())
                for name in changed:
                    await self._look_after(name, tasks)
        finally:
            watch.close()

    def _note(self, kind: str, crd: Object) -> dict[str, None]:
        """Remember a definition; the names of those that may now be better off."""
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        before = self._held.get(name)
        if kind == "DELETED":
            self._held.pop(name, None)
        else:
            self._held[name] = _Names(group, _without_schemas(crd), conditions.structural(crd))
        freed = before is not None and (kind == "DELETED" or _accepted(before.crd) != _accepted(crd))
        others = [other for other, each in self._held.items() if freed and other != name and each.group == group]
        return dict.fromkeys([*others, *([name] if name in self._held else [])])

    async def _look_after(self, name: str, tasks: asyncio.TaskGroup, *, waited: bool = False) -> None:
        held = self._held.get(name)
        if held is None:
            return
        others = [each.crd for other, each in self._held.items() if other != name and each.group == held.group]
        at_once = self._alone or waited
        wanted = plan(held.crd, others, self._now(), at_once=at_once, schemas=held.schemas)
        if wanted != (held.crd.get("status") or {}):
            await self._write(held, others, at_once=at_once)
        if not self._alone and must_wait(wanted) and name not in self._timers:
            self._timers[name] = asyncio.get_running_loop().call_later(
                HA_SECONDS, lambda: tasks.create_task(self._waited(name, tasks), name="establish-definition")
            )
        meta = held.crd["metadata"]
        if meta.get("deletionTimestamp") and FINALIZER in (meta.get("finalizers") or ()) and name not in self._going:
            task = self._going[name] = tasks.create_task(self._cleanup.run(name), name="clean-up-definition")
            task.add_done_callback(lambda _: self._going.pop(name, None))

    async def _waited(self, name: str, tasks: asyncio.TaskGroup) -> None:
        self._timers.pop(name, None)
        await self._look_after(name, tasks, waited=True)

    async def _write(self, held: _Names, others: list[Object], *, at_once: bool) -> None:
        name = held.crd["metadata"]["name"]

        async def change(stored: Object) -> Object | None:
            status = plan(stored, others, self._now(), at_once=at_once, schemas=held.schemas)
            return None if status == (stored.get("status") or {}) else {**stored, "status": status}

        try:
            await write_status(self._store, name, self._now(), change)
        except StatusError as problem:
            if problem.code != 404:
                _log.warning("Cannot write the status of a definition", name=name, err=problem)


async def write_status(store: Store, name: str, now: datetime, change: Any) -> Object:
    """A guaranteed update of the status by the server itself; the definition as it is then."""

    async def no_admission(obj: Object, old: Object | None) -> None:
        """The server's own bookkeeping needs nobody's leave."""

    ctx = Context(SERVER, "", name, "update", now, "status", field_manager="kube-apiserver")
    entry, _ = await store.update(ctx, change, no_admission, STATUS)
    return entry.decode()


def _accepted(crd: Object) -> Object:
    return (crd.get("status") or {}).get("acceptedNames") or {}


def _without_schemas(crd: Object) -> Object:
    """What is kept of a definition: schemas are most of it, and nobody here asks for them."""
    spec = crd["spec"]
    return {**crd, "spec": {"group": spec["group"], "names": spec["names"]}}
