"""The device manager: what plugins offer, who has it, and what the node therefore has to offer.

``registration`` tells it of plugins. A pod is let in in two steps: the topology manager has devices chosen and kept for it
(:meth:`DeviceManager.allocate`, which asks nobody and so holds up nobody); then the pod's own worker has the plugins prepare them
(:meth:`DeviceManager.prepare`), where a plugin that hangs holds up that pod alone. A container's start asks for
:meth:`DeviceManager.run_options`. What was given is on the disk before a container gets it. Source: upstream's
``cm/devicemanager/manager.go``.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from apimachinery.meta import uid_of
from apimachinery.objects import pods
from apimachinery.objects.requests import container_limits, pod_limits
from component import logs
from component.clock import Clock, Timer
from node.kubelet.cm.checkpoint import CheckpointError
from node.kubelet.cm.device_manager import checkpoint, decide, topology_hints
from node.kubelet.cm.device_manager.checkpoint import Checkpoint
from node.kubelet.cm.device_manager.decide import Split, Wanted
from node.kubelet.cm.device_manager.devices import Device, Given, PodDevices, by_node
from node.kubelet.cm.device_manager.endpoint import Endpoint, PluginError
from node.kubelet.cm.device_manager.metrics import DeviceMetrics
from node.kubelet.cm.device_manager.registration import Registration
from node.kubelet.cm.device_manager.run_options import NOTHING, RunOptions, combine
from node.kubelet.cm.interface import UNEXPECTED, AdmissionError, Affinity, Container, Hints, Pod, TopologyHint

GRACE_SECONDS = 300.0
"""How long the node goes on naming a resource whose plugin has gone."""
_SLOW_SECONDS = 10.0
_TELL_SECONDS = 1.0
_log = logs.get(__name__)
Ids = frozenset[str]


@dataclass(slots=True)
class Resource:
    """One extended resource. ``endpoint`` is None while no plugin serves it, since ``gone_at`` (monotonic)."""

    known: Mapping[str, Device] = field(default_factory=dict)
    healthy: Ids = frozenset()
    unhealthy: Ids = frozenset()
    endpoint: Endpoint | None = None
    gone_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the manager needs of the kubelet around it.

    ``affinity``: where the topology manager wants things. ``survives``: whether a pod's sandbox is still there, so that what
    it was given is in use. ``changed``: the node has more or less to offer. ``nudge``: the health of a device of that pod, by
    uid, has changed.
    """

    affinity: Affinity
    survives: Callable[[str], bool]
    changed: Callable[[], None] = field(default=lambda: None)
    nudge: Callable[[str], None] = field(default=lambda uid: None)


class DeviceManager:
    """One per kubelet. Fulfils ``cm.interface.HintProvider`` and ``registration.Listener``; only the event loop touches it."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        metrics: DeviceMetrics,
        around: Surroundings,
        numa_nodes: Collection[int] = (),
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._folder, self._clock, self._metrics, self._around = folder, clock, metrics, around
        self._numa_nodes = frozenset(numa_nodes)
        self._timer = timer
        self._resources: dict[str, Resource] = {}
        self._removed: set[str] = set()
        self._held = PodDevices()
        self._reusable: dict[str, dict[str, Ids]] = {}
        self._dirty = asyncio.Event()
        self._writing = asyncio.Lock()
        self._saved: Checkpoint | None = None
        self._told: dict[str, tuple[int, int]] = {}
        self._told_at = float("-inf")
        self._telling: Timer | None = None
        self.fresh = False
        """There was no checkpoint: this machine is new, or was made anew."""
        self.registration = Registration(folder, self, metrics, clock)

    # Life

    def restore(self) -> None:
        """Read what a former life gave away. Blocks; call it before the first pod is taken."""
        try:
            found = checkpoint.read(self._folder)
        except (CheckpointError, OSError) as error:
            _log.warning("Cannot know which pods have devices, going on without", folder=self._folder, err=error)
            return
        if found is None:
            self.fresh = True
            return
        for row in found.holdings:
            self._held.put(row.uid, row.container, row.resource, row.given)
        for name in found.registered:
            self._resources[name] = Resource(gone_at=self._clock.monotonic())

    async def run(self) -> None:
        """Let plugins register, and write down what changes, until cancelled."""
        await asyncio.to_thread(self._folder.mkdir, 0o750, parents=True, exist_ok=True)
        self._dirty.set()  # from the first life on there is a checkpoint
        async with asyncio.TaskGroup() as group:
            group.create_task(self.registration.run(), name="device plugin registration")
            group.create_task(self._save_changes(), name="device checkpoint")

    async def _save_changes(self) -> None:
        while True:
            await self._dirty.wait()
            try:
                await self._save()
            except OSError as error:
                _log.warning("Cannot remember which pods have devices", folder=self._folder, err=error)
                await self._clock.sleep(1.0)
                self._dirty.set()

    async def _save(self) -> None:
        """Returns when what is held now is on the disk. Raises OSError."""
        async with self._writing:
            self._dirty.clear()
            registered = {name: tuple(sorted(each.healthy)) for name, each in self._resources.items()}
            wanted = Checkpoint(tuple(each for each in self._held if each.given.response is not None), registered)
            if wanted == self._saved:
                return
            await asyncio.to_thread(checkpoint.write, self._folder, wanted)
            self._saved = wanted

    # What plugins offer

    def connected(self, endpoint: Endpoint) -> None:
        self._removed.discard(endpoint.resource)
        self._resources.setdefault(endpoint.resource, Resource()).endpoint = endpoint

    def offered(self, endpoint: Endpoint, devices: Mapping[str, Device]) -> None:
        found = self._resources.get(endpoint.resource)
        if found is None or found.endpoint is not endpoint:
            return
        before = found.known
        found.known = devices
        found.healthy = frozenset(each.id for each in devices.values() if each.healthy)
        found.unhealthy = frozenset(devices) - found.healthy
        _log.v(2, "A device plugin tells its devices", resource=endpoint.resource, all=len(devices), healthy=len(found.healthy))
        self._dirty.set()
        self._tell()
        turned = {each.id for each in devices.values() if each.id not in before or before[each.id].healthy != each.healthy}
        for row in self._held:
            if row.resource == endpoint.resource and row.given.ids & turned:
                self._around.nudge(row.uid)

    def disconnected(self, endpoint: Endpoint) -> None:
        found = self._resources.get(endpoint.resource)
        if found is None or found.endpoint is not endpoint:
            return
        found.endpoint, found.gone_at = None, self._clock.monotonic()
        found.healthy, found.unhealthy = frozenset(), found.unhealthy | found.healthy
        self._dirty.set()
        self._tell()

    def _tell(self) -> None:
        """The node has more or less to offer: at once, but a plugin that flutters is told of once a second."""
        if self._counts() == self._told or self._telling is not None:
            return
        pause = self._told_at + _TELL_SECONDS - self._clock.monotonic()
        if pause > 0:
            self._telling = self._clock.call_later(pause, self._tell_now)
        else:
            self._tell_now()

    def _tell_now(self) -> None:
        self._telling, self._told_at = None, self._clock.monotonic()
        self._told = self._counts()
        self._around.changed()

    def _counts(self) -> dict[str, tuple[int, int]]:
        return {name: (len(each.healthy), len(each.unhealthy)) for name, each in self._resources.items()}

    def capacity(self) -> tuple[dict[str, int], dict[str, int]]:
        """(capacity, allocatable) for the node's status. A resource whose plugin has been gone for five minutes is there with
        nothing, by which it differs from one that the cluster counts."""
        for name, each in list(self._resources.items()):
            if each.endpoint is None and self._clock.monotonic() - each.gone_at > GRACE_SECONDS:
                _log.info("The plugin of a resource has not come back", resource=name)
                del self._resources[name]
                self._removed.add(name)
                self._dirty.set()
        gone = dict.fromkeys(self._removed, 0)
        whole = {name: len(each.healthy) + len(each.unhealthy) for name, each in self._resources.items()}
        return {**gone, **whole}, {**gone, **{name: len(each.healthy) for name, each in self._resources.items()}}

    def managed(self) -> Ids:
        """The resources that this manager gives away: those with a plugin, or with devices that somebody still has."""
        return self._held.resources() | self._resources.keys()

    # Letting a pod in

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        uid, name = uid_of(pod), str(container["name"])
        held = self._held.ids(uid, name)
        return {
            resource: self._hints(resource, count, held.get(resource, frozenset()), self._reusable.get(uid, {}).get(resource))
            for resource, count in self._asked(container_limits(container)).items()
        }

    def pod_topology_hints(self, pod: Pod) -> Hints:
        held: dict[str, Ids] = {}
        for row in self._held.of_pod(uid_of(pod)):
            held[row.resource] = held.get(row.resource, frozenset()) | row.given.ids
        return {
            resource: self._hints(resource, count, held.get(resource, frozenset()), None)
            for resource, count in self._asked(pod_limits(pod)).items()
        }

    def _hints(self, resource: str, count: int, held: Ids, reusable: Ids | None) -> list[TopologyHint] | None:
        known = self._resources[resource].known if resource in self._resources else {}
        if not decide.has_topology(known):
            return None
        if held:
            return topology_hints.hints(self._numa_nodes, known, held, (), count) if len(held) == count else []
        free = self._free(resource)
        if len(free | (reusable or frozenset())) < count:
            return []
        return topology_hints.hints(self._numa_nodes, known, free, reusable or (), count)

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Choose devices for the container and keep them for it. Raises AdmissionError in upstream's words."""
        uid, name = uid_of(pod), str(container["name"])
        reusable = self._reusable.setdefault(uid, {})
        for resource, count in self._asked(container_limits(container)).items():
            try:
                self._choose(uid, name, Wanted(resource, count, reusable.get(resource, frozenset())))
            except decide.UnavailableError as error:
                raise _unexpected(error) from None
        self._note_reusable(pod, container, reusable)

    def _choose(self, uid: str, container: str, wanted: Wanted) -> None:
        """Raises UnavailableError."""
        resource = wanted.resource
        held = self._held.ids(uid, container).get(resource)
        if held is not None and len(held) != wanted.count:
            text = f'changed request for resource "{resource}" from {len(held)} to {wanted.count}'
            raise decide.UnavailableError(f'pod "{uid}" container "{container}" {text}')
        if self._around.survives(uid):
            return  # it was let in by a former life of this kubelet, and has what it has
        found = self._resources.get(resource)
        if problem := decide.refuse(resource, found.healthy if found is not None else None, held or frozenset()):
            raise decide.UnavailableError(problem)
        if held is None:
            assert found is not None
            chosen = decide.choose(wanted, self._split(uid, container, resource, self._free(resource)))
            self._held.put(uid, container, resource, Given(by_node(chosen, found.known)))

    def _note_reusable(self, pod: Pod, container: Container, reusable: dict[str, Ids]) -> None:
        """What an init container has is free for those after it; what a sidecar or an ordinary container has is not."""
        init = any(each["name"] == container["name"] for each in pods.spec_of(pod).get("initContainers") or ())
        for resource, ids in self._held.ids(uid_of(pod), str(container["name"])).items():
            before = reusable.get(resource, frozenset())
            reusable[resource] = before | ids if init and not pods.is_sidecar(container) else before - ids

    async def prepare(self, pod: Pod) -> None:
        """Have the plugins prepare what was chosen for the pod; afterwards it is on the disk. Does nothing for a pod that has
        everything, or needs nothing. Raises AdmissionError."""
        uid = uid_of(pod)
        if all(row.given.response is not None for row in self._held.of_pod(uid)):
            self._reusable.pop(uid, None)
            return
        reusable: dict[str, Ids] = {}
        try:
            for container in (*(pods.spec_of(pod).get("initContainers") or ()), *pods.containers(pod)):
                for resource, given in list(self._held.of(uid, str(container["name"])).items()):
                    if given.response is None:
                        wanted = Wanted(resource, len(given.ids), reusable.get(resource, frozenset()))
                        await self._prepare(uid, str(container["name"]), wanted)
                self._note_reusable(pod, container, reusable)
            await self._save()
        except (PluginError, decide.UnavailableError, OSError) as error:
            raise _unexpected(error) from None
        finally:
            self._reusable.pop(uid, None)

    async def _prepare(self, uid: str, container: str, wanted: Wanted) -> None:
        """Ask the plugin which of the free devices it would rather give, then to prepare them."""
        resource = wanted.resource
        endpoint = self._endpoint(resource)
        preferred: list[str] = []
        asked = decide.question(wanted, self._split(uid, container, resource, self._open_to(uid, wanted)))
        if endpoint.options.preferred and asked is not None:
            preferred = await endpoint.prefer(asked)
        # others may have been given devices meanwhile: choose among what is free now
        chosen = decide.choose(wanted, self._split(uid, container, resource, self._open_to(uid, wanted)), preferred)
        self._keep(uid, container, resource, chosen, None)
        began = self._timer()
        slow = self._clock.call_later(_SLOW_SECONDS, partial(_log.warning, "A device plugin is slow", resource=resource, uid=uid))
        try:
            response = await endpoint.allocate(chosen)
        finally:
            slow.cancel()
            self._metrics.allocated(resource, self._timer() - began)
        self._keep(uid, container, resource, chosen, response)

    def _keep(self, uid: str, container: str, resource: str, chosen: Ids, response: Any) -> None:
        known = self._resources[resource].known if resource in self._resources else {}
        self._held.put(uid, container, resource, Given(by_node(chosen, known), response))

    def _endpoint(self, resource: str) -> Endpoint:
        """Raises PluginError."""
        found = self._resources.get(resource)
        if found is None:
            raise PluginError(f"unknown Device Plugin {resource}")
        if found.endpoint is None:
            raise PluginError(f"endpoint {resource} has been stopped")
        return found.endpoint

    def _free(self, resource: str) -> Ids:
        found = self._resources.get(resource)
        return found.healthy - self._held.used(resource) if found is not None else frozenset()

    def _open_to(self, uid: str, wanted: Wanted) -> Ids:
        """The devices that this pod can still choose from: the free ones, and those that are kept for it."""
        found = self._resources.get(wanted.resource)
        own = [row.given for row in self._held.of_pod(uid) if row.resource == wanted.resource and row.given.response is None]
        kept = frozenset().union(*(given.ids for given in own))
        healthy = found.healthy if found is not None else frozenset()
        return (self._free(wanted.resource) | (kept & healthy)) - wanted.reusable

    def _split(self, uid: str, container: str, resource: str, free: Ids) -> Split:
        found = self._resources.get(resource)
        return decide.split(
            free, found.known if found is not None else {}, self._around.affinity.affinity(uid, container).affinity
        )

    def _asked(self, limits: Mapping[str, int]) -> dict[str, int]:
        """The part of limits (which equal requests for such resources) that is this manager's to give."""
        ours = self.managed()
        return {name: count for name, count in limits.items() if count > 0 and name in ours}

    def forget(self, uid: str) -> None:
        """What a pod has that still runs is not taken from it, even where it could not be let in today."""
        self._reusable.pop(uid, None)
        if not self._around.survives(uid) and self._held.forget(uid):
            self._dirty.set()

    def collect(self, present: Collection[str]) -> None:
        """Take devices back from pods that are neither wanted nor running any more."""
        for uid in self._held.pods():
            if uid not in present:
                self.forget(uid)

    # Running a container

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """What a container is started with, every time. Raises AdmissionError or PluginError."""
        uid, name = uid_of(pod), str(container["name"])
        asked = self._asked(container_limits(container))
        if not asked:
            return NOTHING
        if any(resource not in self._held.of(uid, name) for resource in asked):
            await self._late(pod, container, asked)
        given = self._held.of(uid, name)
        for resource in asked:
            endpoint = self._resources[resource].endpoint if resource in self._resources else None
            if endpoint is not None and endpoint.options.pre_start:
                await endpoint.pre_start(given[resource].ids)
        return combine(each.response for _, each in sorted(given.items()) if each.response is not None)

    async def _late(self, pod: Pod, container: Container, asked: Mapping[str, int]) -> None:
        """The pod was let in before the resource had a plugin: its devices are chosen now."""
        uid, name = uid_of(pod), str(container["name"])
        for resource, count in asked.items():
            if resource in self._held.of(uid, name):
                continue
            found = self._resources.get(resource)
            if problem := decide.refuse(resource, found.healthy if found is not None else None, frozenset()):
                raise _unexpected(problem)
            try:
                chosen = decide.choose(Wanted(resource, count), self._split(uid, name, resource, self._free(resource)))
            except decide.UnavailableError as error:
                raise _unexpected(error) from None
            self._keep(uid, name, resource, chosen, None)
        await self.prepare(pod)

    # Telling

    def health(self, uid: str, container: str) -> list[dict[str, Any]]:
        """The container's ``allocatedResourcesStatus``."""
        listed = []
        for resource, given in sorted(self._held.of(uid, container).items()):
            known = self._resources[resource].known if resource in self._resources else {}
            ids = [
                {"resourceID": each, "health": "Healthy" if each not in known or known[each].healthy else "Unhealthy"}
                for each in sorted(given.ids)
            ]
            listed.append({"name": resource, "resources": ids})
        return listed

    def given(self, uid: str, container: str) -> Mapping[str, Given]:
        """By resource, for the pod resources API."""
        return self._held.of(uid, container)

    def allocatable(self) -> dict[str, Mapping[str, Device]]:
        """The healthy devices of every resource, for the pod resources API."""
        return {
            name: {each: found.known[each] for each in sorted(found.healthy)} for name, found in sorted(self._resources.items())
        }


def _unexpected(error: object) -> AdmissionError:
    return AdmissionError(UNEXPECTED, f"Allocate failed due to {error}, which is unexpected")
