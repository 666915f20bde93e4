"""Whether an APIService can be used: its Service and endpoints are looked at, then its server is asked for what it has.

Upstream's availability controllers (``kube-aggregator/pkg/controllers/status``). :func:`judge` decides what can be told from
objects alone; ``Availability`` asks, and writes the condition, by which ``proxy`` and ``discovery`` then go.
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import clone, condition_status, set_condition
from component import logs
from component.clock import Clock, timeout
from component.metrics import Registry
from component.tasks import Backoff
from controlplane.apiserver.aggregation.availability_metrics import AvailabilityMetrics
from controlplane.apiserver.aggregation.backends import Backends, UnreachableError
from controlplane.apiserver.aggregation.endpoint_services import SERVICE_NAME, is_ready
from controlplane.apiserver.aggregation.identity import AVAILABILITY
from controlplane.apiserver.aggregation.registered import Registered, ServiceReference
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.service_client import ResolveError
from controlplane.apiserver.storage.interface import StorageUnavailableError, WatchOptions

Object = dict[str, Any]
StatusWrite = Callable[[str, Callable[[Object], Awaitable[Object | None]]], Awaitable[None]]
"""``await write(name, change)``: the status of an APIService, by what ``change`` makes of the newest one."""

AVAILABLE = "Available"
LOCAL = ("True", "Local", "Local APIServices are always available")
PASSED = ("True", "Passed", "all checks passed")
RESYNC_SECONDS = 30.0
ASK_SECONDS = 5.0
_ATTEMPTS = 5  # at once: behind one address may be servers that are well and servers that are not
_FIRST_RETRY, _LAST_RETRY = 0.005, 30.0
_log = logs.get(__name__)

Verdict = tuple[str, str, str]
"""Status, reason and message of the condition."""


def judge(reference: ServiceReference, service: Mapping[str, Any] | None, slices: Sequence[Mapping[str, Any]]) -> Verdict | None:
    """What speaks against it without asking its server; None when only that can tell. Pure."""
    where = f'service/{reference.name} in "{reference.namespace}"'
    if service is None:
        return "False", "ServiceNotFound", f"{where} is not present"
    spec = service.get("spec") or {}
    if (spec.get("type") or "ClusterIP") != "ClusterIP":
        return None
    port = next((each for each in spec.get("ports") or () if each.get("port") == reference.port), None)
    if port is None:
        return "False", "ServicePortError", f"{where} is not listening on port {reference.port}"
    if not slices:
        return "False", "EndpointsNotFound", f"cannot find endpointslices for {where}"
    name = port.get("name") or ""
    if not any(_serves(each, name) for each in slices):
        text = f'endpointslices for {where} have no addresses with port name "{name}"'
        return "False", "MissingEndpoints", text
    return None


def _serves(slice_: Mapping[str, Any], port_name: str) -> bool:
    named = any((port.get("name") or "") == port_name and port.get("port") for port in slice_.get("ports") or ())
    return named and any(is_ready(each) for each in slice_.get("endpoints") or ())


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is looked at: ``lookup`` reads Services, ``slices`` the EndpointSlices of one; the stores tell of changes."""

    lookup: Callable[[str, str, str], Awaitable[Object | None]]
    slices: Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]]]]
    service_store: Store
    slice_store: Store


class Availability:
    """Run :meth:`run` for as long as the server lives: one task per APIService that names a Service, woken by what it needs."""

    def __init__(
        self, services: APIServices, backends: Backends, cluster: Cluster, write: StatusWrite, metrics: Registry, clock: Clock
    ) -> None:
        self._services, self._backends, self._cluster = services, backends, cluster
        self._write, self._clock = write, clock
        self._metrics = AvailabilityMetrics()
        metrics.collectors.register(self._metrics)
        self._changed = asyncio.Event()
        services.on_change(self._changed.set)

    async def run(self) -> None:
        tasks: dict[Registered, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                wanted = {replace(one, available=False) for one in self._services.remote.values()}
                for gone in tasks.keys() - wanted:
                    tasks.pop(gone).cancel()
                    if gone.name not in {one.name for one in wanted}:
                        self._metrics.unavailable.pop(gone.name, None)
                for one in wanted - tasks.keys():
                    tasks[one] = group.create_task(self._look_after(one), name=f"availability-{one.name}")
                for one in list(self._services.held.values()):
                    if one.service is None and not _is_local(self._services.objects[one.name]):
                        await self._note(one, LOCAL)
                await self._changed.wait()

    async def _look_after(self, one: Registered) -> None:
        assert one.service is not None
        wake, service = asyncio.Event(), one.service
        pauses = Backoff(_FIRST_RETRY, _LAST_RETRY, jitter=0.0, reset_after=math.inf)
        async with asyncio.TaskGroup() as group:
            group.create_task(_follow(self._cluster.service_store, service, wake, of_slices=False))
            group.create_task(_follow(self._cluster.slice_store, service, wake, of_slices=True))
            while True:
                wake.clear()
                if await self._check(one):
                    pauses.reset()
                    pause = RESYNC_SECONDS
                else:
                    pause = pauses.step()
                with contextlib.suppress(TimeoutError):
                    async with timeout(self._clock, pause):
                        await wake.wait()

    async def _check(self, one: Registered) -> bool:
        """False when it should be tried again soon, because what is wrong may not be seen in objects."""
        reference = one.service
        assert reference is not None
        where = f'service/{reference.name} in "{reference.namespace}"'
        try:
            service = await self._cluster.lookup("services", reference.namespace, reference.name)
            slices = await self._cluster.slices(reference.namespace, reference.name) if service is not None else ()
        except (StatusError, StorageUnavailableError) as problem:
            await self._note(one, ("Unknown", "ServiceAccessError", f"{where} cannot be checked due to: {problem}"))
            return False
        verdict = judge(reference, service, slices)
        if verdict is not None:
            return await self._note(one, verdict)
        why = await self._ask(one)
        return await self._note(one, PASSED if why is None else ("False", "FailedDiscoveryCheck", why)) and why is None

    async def _ask(self, one: Registered) -> str | None:
        """Why its server did not answer any of several questions; None as soon as it answers one."""
        why: str | None = None
        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(self._ask_once(one)) for _ in range(_ATTEMPTS)]
            for attempt in asyncio.as_completed(attempts):
                if (why := await attempt) is None:
                    break
            for task in attempts:
                task.cancel()
        return why

    async def _ask_once(self, one: Registered) -> str | None:
        assert one.service is not None
        try:
            backend = await self._backends.unverified(one.service)
        except (ResolveError, ValueError) as problem:
            return str(problem)
        url = backend.origin + one.path
        try:
            async with timeout(self._clock, ASK_SECONDS):
                status = (await self._backends.get(backend, one.path, AVAILABILITY, (), 0)).status
            why = "" if 200 <= status < 300 else f"bad status from {url}: {status}"
        except UnreachableError as problem:
            why = str(problem)
        except TimeoutError:
            why = f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        return f"failing or missing response from {url}: {why}" if why else None

    async def _note(self, one: Registered, verdict: Verdict) -> bool:
        """Write the condition, if it says something new of the APIService that was looked at. False when it cannot be written."""
        status, reason, message = verdict
        if one.service is not None:
            self._metrics.unavailable[one.name] = status != "True"
        held = self._services.objects.get(one.name)
        if held is None or not _set(clone(held), verdict, self._clock):
            return True
        spec, was = held.get("spec"), condition_status(held, AVAILABLE)

        async def change(newest: Object) -> Object | None:
            return newest if newest.get("spec") == spec and _set(newest, verdict, self._clock) else None

        try:
            await self._write(one.name, change)
        except (StatusError, StorageUnavailableError) as problem:
            gone = isinstance(problem, StatusError) and problem.code == 404
            if not gone:
                _log.warning("Cannot write the availability of an APIService", name=one.name, err=problem)
            return gone
        if was != status:
            _log.info("Changed APIService availability", name=one.name, available=status, reason=reason, message=message)
            if was == "True":
                self._metrics.became_unavailable[one.name, reason] += 1
        return True


def _set(obj: Object, verdict: Verdict, clock: Clock) -> bool:
    status, reason, message = verdict
    return set_condition(obj, AVAILABLE, status, reason=reason, message=message, now=clock.now())


def _is_local(obj: Mapping[str, Any]) -> bool:
    held = (obj.get("status") or {}).get("conditions") or ()
    return any((each.get("type"), each.get("status"), each.get("reason")) == (AVAILABLE, *LOCAL[:2]) for each in held)


async def _follow(store: Store, service: ServiceReference, wake: asyncio.Event, *, of_slices: bool) -> None:
    """Set ``wake`` whenever the Service, or a slice of its endpoints, changes."""
    options = WatchOptions(
        matches=lambda traits: (
            traits.labels.get(SERVICE_NAME) if of_slices else traits.fields.get("metadata.name")
        ) == service.name
    )  # fmt: skip
    while True:
        with contextlib.suppress(StatusError, StorageUnavailableError):
            watch = await store.watch(service.namespace, options)
            try:
                while await watch.batch():
                    wake.set()
            finally:
                watch.close()
        await asyncio.sleep(1)
