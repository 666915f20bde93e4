"""Pods that wait for a node: active (try now), backoff (try soon), unschedulable (try when something helps).

``handlers`` add, update and delete pods and report cluster events; the cycle pops one, and returns it if it was refused.
A refused pod waits until an event that one of its refusing plugins registered for (see ``framework.events``), or for
five minutes at most. A pod that failed for an error backs off. Guarantees: highest priority first, then first come first
served; a pod is in one place at a time; waiting takes no CPU (one timer for the next thing due).
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from apimachinery.meta import Object, uid_of
from component.clock import Clock, Timer
from controlplane.scheduler.framework.events import ClusterEvent, Cure, On
from controlplane.scheduler.framework.status import Status
from controlplane.scheduler.framework.types import PodInfo

LONGEST_WAIT = 300.0
_CLAIMS = "resourceClaimStatuses"


class Place(Enum):
    ACTIVE = auto()
    BACKOFF = auto()
    ERROR_BACKOFF = auto()
    UNSCHEDULABLE = auto()
    GATED = auto()
    TAKEN = auto()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod and its history in the queue."""

    info: PodInfo
    added: float
    attempts: int = 0
    place: Place = Place.TAKEN
    due: float = 0.0
    refused_by: set[str] = field(default_factory=set)
    ticket: int = 0  # of the heap entry that counts; older entries are stale


PreEnqueue = Callable[[PodInfo], Status | None]


class SchedulingQueue:
    """All methods but ``pop`` return at once."""

    def __init__(
        self,
        clock: Clock,
        cures: Mapping[str, Sequence[Cure]],
        pre_enqueue: Iterable[PreEnqueue] = (),
        initial_backoff: float = 1.0,
        longest_backoff: float = 10.0,
    ) -> None:
        self._clock = clock
        self._cures = cures
        self._pre_enqueue = list(pre_enqueue)
        self._initial, self._longest = initial_backoff, longest_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[int, float, int, QueuedPod]] = []
        self._waiting: list[tuple[float, int, QueuedPod]] = []
        self._pausing: list[tuple[float, int, QueuedPod]] = []  # those in backoff that may be taken early
        self._unschedulable: dict[str, QueuedPod] = {}
        self._numbers = itertools.count(1)
        self._ready = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_due = 0.0

    def __len__(self) -> int:
        return len(self._pods)

    def sizes(self) -> dict[str, int]:
        """How many pods are in each place, by upstream's names, for metrics."""
        counted = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        names = {Place.ACTIVE: "active", Place.BACKOFF: "backoff", Place.ERROR_BACKOFF: "backoff", Place.GATED: "gated"}
        for each in self._pods.values():
            if each.place is not Place.TAKEN:
                counted[names.get(each.place, "unschedulable")] += 1
        return counted

    def add(self, pod: Object) -> None:
        """A new pod without a node."""
        if uid_of(pod) in self._pods:
            self.update(pod, pod)
            return
        queued = QueuedPod(PodInfo(pod), self._clock.monotonic())
        self._pods[queued.info.uid] = queued
        self._enqueue(queued)

    def update(self, old: Object, new: Object) -> None:
        """The pod's spec or labels changed: what it waits for may be fulfilled by that."""
        queued = self._pods.get(uid_of(new))
        if queued is None:
            self.add(new)
            return
        if queued.place is Place.TAKEN:
            queued.info.pod = new
            return
        changed = _asks_differently(old, new)
        if not changed:
            queued.info.pod = new
            return
        queued.info = PodInfo(new)
        if queued.place is Place.ACTIVE:
            self._push_active(queued)
        elif queued.place in (Place.UNSCHEDULABLE, Place.GATED):
            self._unschedulable.pop(queued.info.uid, None)
            self._enqueue(queued)

    def delete(self, uid: str) -> None:
        queued = self._pods.pop(uid, None)
        if queued is not None:
            queued.ticket = 0
            self._unschedulable.pop(uid, None)

    async def pop(self) -> QueuedPod:
        """Wait for the next pod and take it; ``done``, ``refused`` or ``failed`` must follow."""
        while True:
            queued = self._take_active() or self._take_backoff()
            if queued is not None:
                queued.place = Place.TAKEN
                queued.attempts += 1
                queued.refused_by.clear()
                return queued
            self._ready.clear()
            await self._ready.wait()

    def done(self, queued: QueuedPod) -> None:
        """The pod has its node, or is none of ours any more."""
        if self._pods.get(queued.info.uid) is queued:
            del self._pods[queued.info.uid]

    def refused(self, queued: QueuedPod, plugins: Iterable[str]) -> None:
        """No node fits. Without a plugin to blame only time can help."""
        if self._pods.get(queued.info.uid) is not queued:
            return
        queued.refused_by = set(plugins)
        self._park(queued, Place.UNSCHEDULABLE)

    def failed(self, queued: QueuedPod) -> None:
        """An error, such as a refused binding: again after a pause, whatever happens."""
        if self._pods.get(queued.info.uid) is queued:
            self._back_off(queued, Place.ERROR_BACKOFF)

    def happened(self, event: ClusterEvent) -> int:
        """Wake the pods that the event may help; returns how many."""
        woken = [each for each in self._unschedulable.values() if self._may_help(each, event)]
        for each in woken:
            del self._unschedulable[each.info.uid]
            if each.place is Place.GATED:
                self._enqueue(each)
            else:
                self._revive(each)
        return len(woken)

    def _may_help(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        if event.on == On.PENDING_POD and event.new is not None and uid_of(event.new) != queued.info.uid:
            return False
        if not queued.refused_by:
            return queued.place is not Place.GATED
        return any(cure.applies(queued.info, event) for name in queued.refused_by for cure in self._cures.get(name, ()))

    # Places

    def _enqueue(self, queued: QueuedPod) -> None:
        for check in self._pre_enqueue:
            refusal = check(queued.info)
            if refusal is not None:
                queued.refused_by = {refusal.plugin}
                self._park(queued, Place.GATED)
                return
        self._revive(queued)

    def _revive(self, queued: QueuedPod) -> None:
        if queued.attempts and queued.due > self._clock.monotonic():
            self._back_off(queued, Place.BACKOFF)
        else:
            self._push_active(queued)

    def _push_active(self, queued: QueuedPod) -> None:
        queued.place = Place.ACTIVE
        queued.ticket = next(self._numbers)
        heapq.heappush(self._active, (-queued.info.priority, queued.added, queued.ticket, queued))
        self._ready.set()

    def _back_off(self, queued: QueuedPod, place: Place) -> None:
        if place is Place.ERROR_BACKOFF:
            queued.due = self._clock.monotonic() + self._pause(queued)
        queued.place = place
        queued.ticket = next(self._numbers)
        heapq.heappush(self._waiting, (queued.due, queued.ticket, queued))
        if place is Place.BACKOFF:
            heapq.heappush(self._pausing, (queued.due, queued.ticket, queued))
            self._ready.set()  # an idle scheduler does not wait for the pause to end
        self._arm()

    def _park(self, queued: QueuedPod, place: Place) -> None:
        now = self._clock.monotonic()
        queued.place = place
        queued.due = now + self._pause(queued)
        queued.ticket = next(self._numbers)
        self._unschedulable[queued.info.uid] = queued
        if place is Place.UNSCHEDULABLE:
            heapq.heappush(self._waiting, (now + LONGEST_WAIT, queued.ticket, queued))
            self._arm()

    def _pause(self, queued: QueuedPod) -> float:
        """1 s after the first attempt, then twice as long each time, up to the longest."""
        return min(self._longest, self._initial * float(1 << max(0, min(queued.attempts - 1, 30))))

    def _take_active(self) -> QueuedPod | None:
        while self._active:
            *_, ticket, queued = heapq.heappop(self._active)
            if queued.ticket == ticket and queued.place is Place.ACTIVE:
                return queued
        return None

    def _take_backoff(self) -> QueuedPod | None:
        """With nothing else to do, the pod whose pause ends first; never one that failed for an error."""
        while self._pausing:
            _, ticket, queued = heapq.heappop(self._pausing)
            if queued.ticket == ticket and queued.place is Place.BACKOFF:
                queued.ticket = 0
                return queued
        return None

    def _arm(self) -> None:
        """One timer, for the earliest entry that still counts."""
        while self._waiting and self._waiting[0][2].ticket != self._waiting[0][1]:
            heapq.heappop(self._waiting)
        if not self._waiting:
            return
        due = self._waiting[0][0]
        if self._timer is not None and self._timer_due <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(due - self._clock.monotonic(), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.monotonic() + 0.001
        while self._waiting and self._waiting[0][0] <= now:
            _, ticket, queued = heapq.heappop(self._waiting)
            if queued.ticket == ticket:
                self._unschedulable.pop(queued.info.uid, None)
                self._push_active(queued)
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _asks_differently(old: Object, new: Object) -> bool:
    """Status writes, the scheduler's own among them, are no reason to look again, unless a claim has been made for the pod."""
    if old.get("spec") != new.get("spec") or old["metadata"].get("labels") != new["metadata"].get("labels"):
        return True
    return (old.get("status") or {}).get(_CLAIMS) != (new.get("status") or {}).get(_CLAIMS)
