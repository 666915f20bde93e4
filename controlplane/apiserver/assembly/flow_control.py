"""API priority and fairness, wired: it follows its objects through the watch cache.

Made by ``assembly.server``. Without ``--enable-priority-and-fairness`` two plain bounds stand in its place.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from apimachinery import errors
from component import logs
from component.clock import RealClock
from component.metrics import Registry
from component.tasks import Supervisor
from controlplane.apiserver.config import Serving
from controlplane.apiserver.endpoints.paths import PathEndpoint
from controlplane.apiserver.filters.in_flight import in_flight
from controlplane.apiserver.filters.in_flight_counts import InFlight
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.priority_and_fairness import ObjectStats, priority_and_fairness
from controlplane.apiserver.flowcontrol import borrowing, dump
from controlplane.apiserver.flowcontrol.control import FlowControl
from controlplane.apiserver.flowcontrol.metrics import FlowMetrics
from controlplane.apiserver.kinds.flowcontrol import bootstrap
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.storage.interface import WatchOptions
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import TEXT, Reply

Object = dict[str, Any]
Note = Callable[[], Awaitable[None]]
"""Brings the conditions of FlowSchemas up to date."""

SCHEMAS, LEVELS = f"flowschemas.{bootstrap.GROUP}", f"prioritylevelconfigurations.{bootstrap.GROUP}"
_DEBUG = "/debug/api_priority_and_fairness"
_RETRY_SECONDS = 1.0
_log = logs.get(__name__)


class FlowObjects:
    """FlowSchemas and PriorityLevelConfigurations as they are. Run :meth:`follow` as long as the server lives."""

    def __init__(self, control: FlowControl, stores: Mapping[str, Store], note_conditions: Note) -> None:
        self._control, self._stores, self._note_conditions = control, stores, note_conditions
        self._held: dict[str, dict[str, Object]] = {SCHEMAS: {}, LEVELS: {}}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for resource in self._held:
                if resource in self._stores:
                    tasks.create_task(self._follow_one(resource), name=f"flow-{resource}")
            tasks.create_task(self._note(), name="flow-conditions")

    async def _follow_one(self, resource: str) -> None:
        while True:
            try:
                await self._read(resource)
            except errors.StatusError as problem:
                _log.warning("Cannot follow flow control objects, trying again", resource=resource, err=problem)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self, resource: str) -> None:
        """From the present state on, until the watch ends."""
        watch = await self._stores[resource].watch("", WatchOptions())
        fresh: dict[str, Object] = {}
        try:
            while frames := await watch.batch():
                specs = {key: held.get("spec") for key, held in self._held[resource].items()}
                for frame in frames:
                    if frame.type == "DELETED":
                        fresh.pop(frame.entry.key, None)
                    elif frame.type in ("ADDED", "MODIFIED"):
                        fresh[frame.entry.key] = frame.entry.decode()
                self._held[resource] = fresh
                self._changed.set()
                if {key: held.get("spec") for key, held in fresh.items()} != specs:
                    self._control.configure(self._held[LEVELS].values(), self._held[SCHEMAS].values())
        finally:
            watch.close()

    async def _note(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._note_conditions()


def seats_for(
    serving: Serving, stores: Mapping[str, Store], stats: ObjectStats, metrics: Registry, supervisor: Supervisor, note: Note
) -> tuple[Filter, dict[str, PathEndpoint]]:
    """The filter that bounds how much is done at once, and the paths at which it shows what it does."""
    counts = InFlight()
    metrics.collectors.register(counts)
    if not serving.priority_and_fairness:
        return in_flight(serving.max_reads, serving.max_writes, counts), {}
    control = FlowControl(serving.max_reads + serving.max_writes, RealClock())
    metrics.collectors.register(FlowMetrics(control))
    supervisor.keep("flow-control", FlowObjects(control, stores, note).follow)
    supervisor.every("flow-borrowing", borrowing.PERIOD, _adjusting(control))
    return priority_and_fairness(control, stats, counts), _dumps(control)


def _adjusting(control: FlowControl) -> Callable[[], Any]:
    async def adjust() -> None:
        control.adjust()

    return adjust


def _dumps(control: FlowControl) -> dict[str, PathEndpoint]:
    async def priority_levels(call: Call) -> Reply:
        return Reply(200, dump.priority_levels(control.levels).encode(), TEXT)

    async def queues(call: Call) -> Reply:
        return Reply(200, dump.queues(control.levels).encode(), TEXT)

    async def requests(call: Call) -> Reply:
        details = bool(call.query.get("includeRequestDetails"))
        return Reply(200, dump.requests(control.levels, time.time(), control.now(), details).encode(), TEXT)

    return {
        f"{_DEBUG}/dump_priority_levels": priority_levels,
        f"{_DEBUG}/dump_queues": queues,
        f"{_DEBUG}/dump_requests": requests,
    }
