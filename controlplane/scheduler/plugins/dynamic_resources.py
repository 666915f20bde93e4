"""DynamicResources: a pod goes where the devices of its claims are, or where devices can be found for those that have none yet.

PreFilter gathers the claims; Filter finds devices on each node (``devices.allocator``); Reserve promises them, so that nobody
else is given them; PreBind writes allocation and reservation, and waits for devices that must be attached first. When no node
fits, PostFilter takes back an allocation that nobody uses. Rules and words are upstream's ``dynamicresources``.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from apimachinery.errors import StatusError
from apimachinery.meta import Object, add_finalizer, clone, is_deleting, key_of, name_of, uid_of
from apimachinery.objects import claims
from apimachinery.objects.affinity import matches_node_selector
from apimachinery.times import format_time, parse_time
from component.clock import Clock
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.scheduler.devices import extended, selectors
from controlplane.scheduler.devices.allocator import (
    Allocation,
    AllocationError,
    Features,
    Given,
    OutOfTimeError,
    allocate,
)
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.devices import Devices
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.normalize import by_highest
from controlplane.scheduler.framework.status import SKIP, Code, Status, unresolvable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

FILTER_SECONDS, BINDING_SECONDS = 10.0, 600.0
NOWHERE = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
TOO_LONG = "timed out trying to allocate devices"
_LOOK_SECONDS = 5.0
_ATTEMPTS = 5
_NEW = "<extended-resources>"
"""Stands for the name of the claim for extended resources while there is none."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one node can give: an allocation for each claim that has none, in order."""

    allocations: Sequence[Allocation]
    made: Object | None = None
    """The claim for extended resources, as this node needs it."""
    mappings: Sequence[extended.Mapped] = ()


@dataclass(slots=True)
class Wants:
    """The claims of one pod. ``resources`` are its extended resources that devices may stand for."""

    held: list[Object]
    resources: tuple[str, ...] = ()
    stale: Object | None = None
    """The claim of an earlier attempt for the extended resources: it has to go first."""
    given: Given | None = None
    found: dict[str, Found] = field(default_factory=dict)
    unavailable: dict[str, Object] = field(default_factory=dict)
    promised: list[Object] = field(default_factory=list)
    written: list[Object] = field(default_factory=list)

    @property
    def pending(self) -> list[Object]:
        return [claim for claim in self.held if claims.allocation_of(claim) is None]


class DynamicResources:
    name: ClassVar[str] = "DynamicResources"
    local: ClassVar[bool] = False
    score_local: ClassVar[bool] = False

    def __init__(
        self,
        devices: Devices,
        clock: Clock,
        gates: Gates = DEFAULTS,
        filter_seconds: float = FILTER_SECONDS,
        binding_seconds: float = BINDING_SECONDS,
    ) -> None:
        self._devices, self._clock = devices, clock
        self._binds = gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
        self._extends = gates.enabled("DRAExtendedResource")
        self._features = Features(
            partitionable=gates.enabled("DRAPartitionableDevices"),
            taints=gates.enabled("DRADeviceTaints"),
            binding=self._binds,
            consumable=gates.enabled("DRAConsumableCapacity"),
        )
        self._filter_seconds = filter_seconds if gates.enabled("DRASchedulerFilterTimeout") else 0.0
        self._binding_seconds = binding_seconds

    def cures(self) -> Sequence[Cure]:
        changed = Action.ADD | Action.UPDATE_OTHER
        return [
            Cure(On.NODE, Action.ADD | Action.UPDATE_LABELS),
            Cure(On.RESOURCE_CLAIM, changed | Action.DELETE, self._claim_helps),
            Cure(On.DEVICE_CLASS, changed),
            Cure(On.RESOURCE_SLICE, changed),
        ]

    def _claim_helps(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Devices have become free, or one of the pod's own claims is there or has changed its state."""
        before, now = event.old, event.new
        if before is not None and claims.results_of(before) and (now is None or not claims.results_of(now)):
            return True
        if now is None:
            return claims.owning_pod(before or {"metadata": {}})[1] == pod.uid
        if key_of(now) not in {f"{pod.namespace}/{wanted.claim}" for wanted in claims.claims_of(pod.pod)}:
            return False
        return before is None or before.get("status") != now.get("status")

    def backed(self, resource: str) -> bool:
        """Whether devices stand for an extended resource."""
        return self._extends and extended.may_be_device(resource) and bool(self._devices.class_of(resource))

    # Looking

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """A pod whose claims do not exist yet need not be looked at."""
        held = self._claims_of(pod)
        return held if isinstance(held, Status) else None

    def _claims_of(self, pod: PodInfo) -> list[Object] | Status:
        found = []
        for entry in claims.entries_of(pod.pod):
            try:
                wanted = claims.claim_of(pod.pod, entry)
            except claims.ClaimError as error:
                return unresolvable(self.name, str(error))
            if wanted is None:
                continue
            claim = self._devices.claim(pod.namespace, wanted.claim)
            if claim is None:
                return unresolvable(self.name, f'resourceclaim.resource.k8s.io "{wanted.claim}" not found')
            if is_deleting(claim):
                return unresolvable(self.name, f'resourceclaim "{wanted.claim}" is being deleted')
            if wanted.own and (problem := claims.not_of_pod(pod.pod, claim)):
                return unresolvable(self.name, problem)
            found.append(claim)
        return found

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        held = self._claims_of(pod)
        if isinstance(held, Status):
            return held, None
        resources = tuple(name for name in pod.requests if self.backed(name))
        if not held and not resources:
            return SKIP, None
        for claim in held:
            if problem := self._hindrance(pod, claim):
                return unresolvable(self.name, problem), None
        wants = Wants(held, resources, self._devices.extended_claim(pod.uid) if resources else None)
        if wants.pending or resources:
            wants.given = Given(
                self._devices.catalogue(),
                self._devices.classes(),
                self._devices.taken(),
                selectors.select,
                lambda: str(uuid.uuid4()),
                self._features,
                self._limit(),
            )
        state.write(self.name, wants)
        return None, None

    def _hindrance(self, pod: PodInfo, claim: Object) -> str:
        """Why no node can take a pod with this claim now; empty if nothing is in the way."""
        if self._devices.is_promised(claim):
            return f"resource claim {key_of(claim)} is in the process of being allocated"
        if claims.allocation_of(claim) is not None:
            in_use = not claims.can_be_reserved(claim) and not claims.is_reserved_for(pod.pod, claim)
            return "resourceclaim in use" if in_use else ""
        classes = self._devices.classes()
        for request, asked in claims.requests_of(claim["spec"]):
            wanted = asked.get("deviceClassName") or ""
            if wanted not in classes:
                return f"request {request}: device class {wanted} does not exist"
        return ""

    def _limit(self) -> Callable[[], None]:
        """Of a search over all nodes together: nothing else is scheduled meanwhile."""
        until = self._clock.monotonic() + self._filter_seconds

        def check() -> None:
            if self._filter_seconds and self._clock.monotonic() > until:
                raise OutOfTimeError

        return check

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wants: Wants = state.read(self.name)
        if node.node is None:
            return unresolvable(self.name, ELSEWHERE)
        if wants.stale is not None:
            return unresolvable(self.name, "cannot schedule extended resource claim")
        lacking = [claim for claim in wants.held if self._is_unavailable(claim, node.node)]
        if lacking:
            wants.unavailable |= {key_of(claim): claim for claim in lacking}
            return unresolvable(self.name, ELSEWHERE)
        made, mappings = self._extended(wants, pod, node)
        pending = [*wants.pending, *([made] if made is not None else [])]
        if not pending or wants.given is None:
            return None
        try:
            allocations = allocate(wants.given, node.node, pending)
        except AllocationError as error:
            return unresolvable(self.name, str(error))
        except OutOfTimeError:
            return unresolvable(self.name, TOO_LONG)
        if allocations is None:
            return unresolvable(self.name, NOWHERE)
        wants.found[node.name] = Found(allocations, made, mappings)
        return None

    def _is_unavailable(self, claim: Object, node: Object) -> bool:
        """The claim's devices are elsewhere, or cannot be made ready."""
        allocation = claims.allocation_of(claim)
        if allocation is None:
            return False
        selector = allocation.get("nodeSelector")
        if selector is not None and not matches_node_selector(selector, node):
            return True
        problem = claims.binding_problem(claim) if self._binds else None
        return bool(problem) or (problem == "" and self._has_waited(claim))

    def _has_waited(self, claim: Object) -> bool:
        since = (claims.allocation_of(claim) or {}).get("allocationTimestamp")
        if since is None or not claims.has_binding_conditions(claim):
            return False
        return parse_time(since) + timedelta(seconds=self._binding_seconds) < self._clock.now()

    def _extended(self, wants: Wants, pod: PodInfo, node: NodeInfo) -> tuple[Object | None, Sequence[extended.Mapped]]:
        """The claim for what the node does not have of its own."""
        missing = [name for name in wants.resources if not node.allocatable.get(name, 0)]
        if not missing:
            return None, ()
        requests = extended.requests_of(pod.pod, missing, self._devices.class_of)
        return extended.claim_for(pod.pod, f"{_NEW}{pod.uid}", requests), requests.mappings

    # Scoring: the earlier the alternative, the better

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        held = self._claims_of(pod) if claims.entries_of(pod.pod) else []
        if isinstance(held, Status):
            return False
        return any(claims.allocation_of(claim) is None and _has_alternatives(claim) for claim in held)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        wants: Wants | None = state.read(self.name)
        found = wants.found.get(node.name) if wants is not None else None
        if wants is None or found is None:
            return 0
        return sum(preference(claim, each) for claim, each in zip(wants.pending, found.allocations, strict=False))

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return by_highest(scores)

    # Taking back what stands in the way

    def post_filter(self, state: CycleState, pod: PodInfo) -> Awaitable[object] | None:
        """What may help the pod, to be awaited; None if there is nothing."""
        wants: Wants | None = state.read(self.name)
        if wants is None:
            return None
        for claim in wants.unavailable.values():
            users = claims.consumers_of(claim)
            if not users or [each.get("uid") for each in users] == [pod.uid]:
                changed = clone(claim)
                for part in ("reservedFor", "allocation", "devices"):
                    changed["status"].pop(part, None)
                return self._devices.update_status(changed)
        return self._devices.delete(wants.stale) if wants.stale is not None else None

    # Promising

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        wants: Wants | None = state.read(self.name)
        if wants is None or (not wants.pending and not wants.resources):
            return None
        found = wants.found.get(node)
        if found is None:
            return Status(Code.ERROR, ("claim allocation not found for node",), self.name) if wants.pending else None
        pending = [*wants.pending, *([found.made] if found.made is not None else [])]
        for claim, allocation in zip(pending, found.allocations, strict=True):
            promised = clone(claim)
            promised["status"] = {**(promised.get("status") or {}), "allocation": allocation}
            self._devices.promise(promised)
            wants.promised.append(promised)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        wants: Wants | None = state.read(self.name)
        if wants is None:
            return
        for claim in wants.promised:
            self._devices.withdraw(claim)
        for claim in wants.written:
            if claim["metadata"].get("annotations", {}).get(claims.EXTENDED_ANNOTATION) == "true":
                self._devices.later(partial(self._devices.delete, claim))
            else:
                self._devices.later(partial(self._devices.unreserve, claim, pod.pod))
        wants.promised, wants.written = [], []

    # Keeping the promise

    def waits(self, state: CycleState) -> bool:
        wants: Wants | None = state.read(self.name)
        if wants is None or not self._binds:
            return False
        return any(map(claims.has_binding_conditions, (*wants.held, *wants.promised, *wants.written)))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        wants: Wants | None = state.read(self.name)
        if wants is None:
            return None
        try:
            for claim in _to_reserve(wants, pod):
                await self._write(wants, pod, claim, wants.found.get(node))
        except StatusError as error:
            return Status(Code.ERROR, (error.message,), self.name)
        except ClaimChangedError as error:
            return Status(Code.ERROR, (str(error),), self.name)
        if not self.waits(state):
            return None
        self._devices.event(pod.pod, "BindingConditionsPending", f"waiting for binding conditions for device on node {node}")
        problem = await self._attached(pod, wants)
        return Status(Code.ERROR, (problem,), self.name) if problem else None

    async def _write(self, wants: Wants, pod: PodInfo, claim: Object, found: Found | None) -> None:
        """Allocation and reservation of one claim, over whatever else was changed meanwhile."""
        promised = claim in wants.promised
        made = promised and not claim["metadata"].get("resourceVersion")
        held = await self._devices.create(_without_promise(claim)) if made else claim
        if made:
            wants.written.append(held)  # to be deleted if anything fails from here on
        for attempt in range(_ATTEMPTS):
            try:
                written = await self._reserve_for(
                    pod, held, claims.allocation_of(claim) if promised else None, fresh=attempt == 0
                )
                break
            except StatusError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise
                held = await self._devices.get(held)
        if promised:
            self._devices.kept(claim, written)
            wants.promised.remove(claim)
        wants.written = [*(each for each in wants.written if uid_of(each) != uid_of(written)), written]
        if made and found is not None:
            await self._devices.note_extended(pod.pod, name_of(written), found.mappings)

    async def _reserve_for(self, pod: PodInfo, held: Object, allocation: Mapping[str, Any] | None, *, fresh: bool) -> Object:
        if is_deleting(held):
            raise ClaimChangedError(f"claim {key_of(held)} got deleted in the meantime")
        changed = clone(held)
        if allocation is not None:
            if fresh:
                changed = _without_promise(changed)
            if claims.allocation_of(changed) is not None:
                raise ClaimChangedError(f"claim {key_of(held)} got allocated elsewhere in the meantime")
            if add_finalizer(changed, claims.FINALIZER):
                changed = clone(await self._devices.update(changed))
            changed.setdefault("status", {})["allocation"] = dict(allocation)
        status = changed.setdefault("status", {})
        status["reservedFor"] = [*claims.consumers_of(changed), claims.consumer(pod.pod)]
        if self._binds and not status["allocation"].get("allocationTimestamp"):
            status["allocation"] = {**status["allocation"], "allocationTimestamp": format_time(self._clock.now())}
        return await self._devices.update_status(changed)

    async def _attached(self, pod: PodInfo, wants: Wants) -> str:
        """Wait until all devices are ready; empty, or why they never will be."""
        keys = [key_of(claim) for claim in (*wants.held, *wants.written)]
        until = self._clock.monotonic() + self._binding_seconds
        while True:
            waiting = False
            for key in keys:
                claim = self._devices.claim(pod.namespace, key.rpartition("/")[2])
                if claim is None:
                    return f'resourceclaim.resource.k8s.io "{key.rpartition("/")[2]}" not found'
                problem = claims.binding_problem(claim)
                if problem:
                    return problem
                if problem is not None:
                    if self._has_waited(claim):
                        return f"claim {name_of(claim)} binding timeout"
                    waiting = True
            if not waiting:
                return ""
            left = until - self._clock.monotonic()
            if left <= 0:
                return "device binding timeout"
            await self._devices.change(keys, min(left, _LOOK_SECONDS))


class ClaimChangedError(Exception):
    """Somebody else was faster."""


def preference(claim: Object, allocation: Allocation) -> int:
    """8 for each request that got its first alternative, 7 for its second, and so on. Pure."""
    chosen = {result["request"] for result in allocation["devices"]["results"]}
    total = 0
    for request in claim["spec"]["devices"].get("requests") or ():
        for position, choice in enumerate(request.get("firstAvailable") or ()):
            if f"{request['name']}/{choice['name']}" in chosen:
                total += claims.SUBREQUESTS_MAX - position
    return total


def _has_alternatives(claim: Object) -> bool:
    requests = (claim["spec"].get("devices") or {}).get("requests") or ()
    return any(request.get("firstAvailable") for request in requests)


def _to_reserve(wants: Wants, pod: PodInfo) -> Iterator[Object]:
    """Claims as they are to be, where the pod has not reserved them yet."""
    promised = {uid_of(claim) for claim in wants.promised}
    yield from list(wants.promised)
    for claim in wants.held:
        if uid_of(claim) not in promised and not claims.is_reserved_for(pod.pod, claim):
            yield claim


def _without_promise(claim: Object) -> Object:
    """The claim as it was before; of one that is to be made, what the server may be sent."""
    made = clone(claim)
    made.get("status", {}).pop("allocation", None)
    if not made["metadata"].get("resourceVersion"):
        made.pop("status", None)
        for name in ("uid", "finalizers"):
            made["metadata"].pop(name, None)
    return made
