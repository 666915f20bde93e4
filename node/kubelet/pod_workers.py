"""One worker per pod: a small state machine that is serial within its pod and independent of all others.

Events come in (the pod changed, is deleted, the runtime or a probe has news, time is up); the worker looks, decides
(``runtime.actions``), acts (``runtime.manager``), looks again, and reports (``status``). Its states:

SYNCING      the pod should run: keep it so.
TERMINATING  it was deleted, evicted or has finished: stop everything, within its grace period.
TERMINATED   nothing runs. A deleted pod is removed from this node and let go from the API; a finished one stays for its logs.

The runtime is the truth: after a restart of the kubelet the first look finds what runs and nothing is started twice.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from apimachinery.meta import is_deleting, name_of, namespace_of, uid_of
from component import logs
from component.clock import Timer
from component.tasks import Backoff
from node.kubelet.pod_status import Failure
from node.kubelet.pod_sync import PodSync, Tools
from node.kubelet.sources.static_pods import is_static

_log = logs.get(__name__)

Pod = Mapping[str, Any]


class Phase(Enum):
    """Where a worker is."""

    SYNCING = "syncing"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


@dataclass(slots=True)
class Worker:
    """The state of one pod's worker; only its own task and the methods of PodWorkers touch it."""

    uid: str
    pod: Pod | None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    phase: Phase = Phase.SYNCING
    removed: bool = False  # gone from the API
    grace: int | None = None  # the shortest asked for
    failure: Failure | None = None  # of an eviction
    step: asyncio.Task[None] | None = None
    timer: Timer | None = None


class PodWorkers:
    """All workers. ``run`` owns their tasks; every other method only notes something and wakes a worker."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._workers: dict[str, Worker] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Hold the workers' tasks until cancelled. Containers go on running: only this kubelet stops looking."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._stopped.wait()

    def knows(self, uid: str) -> bool:
        return uid in self._workers

    def uids(self) -> list[str]:
        return list(self._workers)

    def terminating(self, uid: str) -> bool:
        worker = self._workers.get(uid)
        return worker is not None and worker.phase is not Phase.SYNCING

    def terminated(self, uid: str) -> bool:
        """Nothing of it runs any more, nor takes memory or devices: its volumes and its cgroup are gone, too."""
        worker = self._workers.get(uid)
        return worker is None or worker.phase is Phase.TERMINATED

    def update(self, pod: Pod) -> None:
        """The pod is new or has changed; a deletion, or a shorter grace period, interrupts what its worker is doing."""
        worker = self._workers.get(uid_of(pod))
        if worker is None:
            worker = self._start(uid_of(pod), pod)
        worker.pod = pod
        if is_deleting(pod):
            asked = pod["metadata"].get("deletionGracePeriodSeconds")
            self._terminate(worker, int(asked) if asked is not None else None)
        worker.wake.set()

    def remove(self, uid: str) -> None:
        """The pod is gone from the API: by force, if it still runs here."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.removed = True
            own = worker.pod is not None and is_static(worker.pod)  # its manifest is gone: ended as it asks for itself
            self._terminate(worker, None if own or worker.phase is not Phase.SYNCING else 1)

    def evict(self, uid: str, failure: Failure, grace: int | None = None) -> None:
        """End a pod as Failed, within ``grace`` seconds if that is shorter than its own."""
        worker = self._workers.get(uid)
        if worker is not None and worker.failure is None:
            worker.failure = failure
            self._terminate(worker, grace)

    def clear(self, uid: str) -> None:
        """Something runs for a pod that nobody wants: stop and remove it."""
        if uid not in self._workers:
            worker = self._start(uid, None)
            worker.removed = True
            worker.grace = 1  # upstream's, too: nobody can say any more how much it was meant to have
            worker.phase = Phase.TERMINATING

    def nudge(self, uid: str) -> None:
        """The runtime or a probe has news of the pod."""
        if worker := self._workers.get(uid):
            worker.wake.set()

    def _start(self, uid: str, pod: Pod | None) -> Worker:
        assert self._group is not None, "PodWorkers.run comes first"
        worker = self._workers[uid] = Worker(uid, pod)
        worker.wake.set()
        self._group.create_task(self._work(worker), name=f"pod {uid}")
        return worker

    def _terminate(self, worker: Worker, grace: int | None) -> None:
        shorter = grace is not None and (worker.grace is None or grace < worker.grace)
        if shorter:
            worker.grace = grace
        if worker.phase is Phase.SYNCING:
            worker.phase = Phase.TERMINATING
        elif worker.phase is Phase.TERMINATED or not shorter:
            worker.wake.set()
            return
        if worker.step is not None:
            worker.step.cancel()
        worker.wake.set()

    async def _work(self, worker: Worker) -> None:
        """A worker's life. Whatever a step raises is logged and tried again; only the end of the pod ends it."""
        sync = PodSync(self._tools, worker.uid)
        backoff = Backoff(0.5, 10.0, jitter=0.1, clock=self._tools.host.clock)
        while True:
            await worker.wake.wait()
            worker.wake.clear()
            self._disarm(worker)
            try:
                async with asyncio.TaskGroup() as group:
                    worker.step = group.create_task(self._step(worker, sync))
            except* Exception as failed:
                for error in failed.exceptions:
                    self._failed(worker, error)
                self._arm(worker, backoff.step())
            else:
                backoff.reset()
            finally:
                worker.step = None
            if self._ended(worker, sync):
                break
        del self._workers[worker.uid]
        self._disarm(worker)

    async def _step(self, worker: Worker, sync: PodSync) -> None:
        if worker.phase is Phase.SYNCING and worker.pod is not None:
            result = await sync.sync(worker.pod)
            if result.failure:
                worker.failure = result.failure
            if result.finished or worker.failure:
                worker.phase = Phase.TERMINATING
                worker.wake.set()
            elif result.again_after is not None:
                self._arm(worker, result.again_after)
        elif worker.phase is Phase.TERMINATING:
            await sync.stop(worker.pod, worker.grace, worker.failure)
            worker.phase = Phase.TERMINATED
            worker.wake.set()
        elif worker.removed or (worker.pod is not None and is_deleting(worker.pod)):
            await sync.remove(None if worker.removed else worker.pod)

    def _ended(self, worker: Worker, sync: PodSync) -> bool:
        return worker.phase is Phase.TERMINATED and sync.removed

    def _failed(self, worker: Worker, error: BaseException) -> None:
        name = f"{namespace_of(worker.pod)}/{name_of(worker.pod)}" if worker.pod else worker.uid
        _log.warning("Error syncing pod, trying again", pod=name, phase=worker.phase.value, err=error)

    def _arm(self, worker: Worker, seconds: float) -> None:
        self._disarm(worker)
        worker.timer = self._tools.host.clock.call_later(seconds, worker.wake.set)

    def _disarm(self, worker: Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None
