"""The scheduling loop: pop a pod, decide, assume, bind. The acting half around ``cycle``.

One loop per profile decides, pod after pod, without awaiting inside a decision; bindings and reports of refusals run beside
it, at most ``SLOTS`` at a time. When all slots are taken the loop waits: the API server sets the pace.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, get_condition, is_deleting, name_of, namespace_of, set_condition
from apimachinery.resources import NAMESPACES, NODES, PODS
from client.events import Recorder
from client.informer import InformerFactory
from client.rest import STRATEGIC, Client
from component import logs
from component.clock import Clock
from component.featuregates import Gates
from component.features import DEFAULTS
from component.metrics import Registry
from controlplane.scheduler.cache import Cache
from controlplane.scheduler.claims import ApiDevices
from controlplane.scheduler.config import SchedulerConfig
from controlplane.scheduler.cycle import Cycle, Decision, Refusal
from controlplane.scheduler.framework.interface import PreBindPlugin
from controlplane.scheduler.framework.runtime import Profile
from controlplane.scheduler.framework.status import Code, Status
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.handlers import Handlers
from controlplane.scheduler.plugins import catalog
from controlplane.scheduler.plugins.default_binder import Post
from controlplane.scheduler.plugins.default_preemption import Preemption
from controlplane.scheduler.queue import Place, QueuedPod, SchedulingQueue
from controlplane.scheduler.storage import ApiStorage

SLOTS = 32
_TURN = 4
"""Pods decided before other tasks get a turn, while there is no pod's binding to wait for."""
WHY = "pybernetes.io/why"
ACTIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"

_log = logs.get(__name__)


class Scheduler:
    """Wires caches, queues and cycles of all profiles; ``run`` schedules until cancelled, once the informers are filled."""

    def __init__(
        self,
        client: Client,
        informers: InformerFactory,
        recorder: Recorder,
        config: SchedulerConfig,
        clock: Clock,
        metrics: Registry,
        gates: Gates = DEFAULTS,
        *,
        devices: bool = True,
        taint_rules: bool = False,
    ) -> None:
        """``devices``: whether the server has the kinds of resource.k8s.io. ``taint_rules``: whether DeviceTaintRules count."""
        self.cache = Cache()
        self._lanes: dict[str, Lane] = {}
        pods = informers.informer(PODS, field_selector=ACTIVE_PODS)
        storage = ApiStorage(client, informers, pods, clock)
        partitionable = gates.enabled("DRAPartitionableDevices")
        self._devices: ApiDevices | None = None
        if devices:
            self._devices = ApiDevices(
                client,
                informers,
                recorder,
                clock,
                self.cache.reshape,
                partitionable=partitionable,
                taint_rules=taint_rules,
            )
        for each in config.profiles:
            profile = catalog.build(each, _poster(client), storage, clock, self._devices, gates)
            pre_enqueue = [plugin.pre_enqueue for plugin in profile.plugins if hasattr(plugin, "pre_enqueue")]
            queue = SchedulingQueue(clock, profile.cures(), pre_enqueue, config.initial_backoff, config.longest_backoff)
            cycle = Cycle(profile, self.cache, percentage=config.percentage_of_nodes)
            self._lanes[profile.scheduler_name] = Lane(client, recorder, clock, self.cache, queue, cycle, Measures(metrics))
        handlers = Handlers(self.cache, [lane.queue for lane in self._lanes.values()], self._queue_of)
        handlers.register(pods, informers.informer(NODES), informers.informer(NAMESPACES))
        storage.report(handlers.tell)
        if self._devices is not None:
            self._devices.report(handlers.tell)

    def _queue_of(self, pod: Object) -> SchedulingQueue | None:
        lane = self._lanes.get((pod.get("spec") or {}).get("schedulerName") or "default-scheduler")
        return lane.queue if lane is not None else None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._devices is not None:
                group.create_task(self._devices.run(), name="claims")
            for name, lane in self._lanes.items():
                group.create_task(lane.run(), name=f"schedule:{name}")


class Measures:
    """Upstream's series for what a scheduler is judged by."""

    def __init__(self, metrics: Registry) -> None:
        self.attempts = metrics.counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by result.", ["result", "profile"]
        )
        self.duration = metrics.histogram("scheduler_scheduling_algorithm_duration_seconds", "Time of one decision.", ["profile"])
        self.end_to_end = metrics.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds", "Time from entering the queue to being bound.", ["profile"]
        )
        self.pending = metrics.gauge("scheduler_pending_pods", "Pods that wait, by place.", ["queue"])


class Lane:
    """One profile's queue, cycle and bindings."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        cache: Cache,
        queue: SchedulingQueue,
        cycle: Cycle,
        measures: Measures,
    ) -> None:
        self.queue = queue
        self._client, self._recorder, self._clock = client, recorder, clock
        self._cache, self._cycle, self._measures = cache, cycle, measures
        self._slots = asyncio.Semaphore(SLOTS)

    @property
    def _profile(self) -> Profile:
        return self._cycle.profile

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                decided = 0
                while True:
                    queued = await self.queue.pop()
                    await self._slots.acquire()
                    work = self._schedule(queued)
                    if work is None:
                        self._slots.release()
                        continue
                    group.create_task(self._in_slot(queued, work), name=f"bind:{queued.info.key}")
                    decided += 1
                    if decided % _TURN == 0:
                        await asyncio.sleep(0)
        finally:
            self.queue.stop()

    async def _in_slot(self, queued: QueuedPod, work: Any) -> None:
        """What goes wrong with one pod is that pod's affair: it backs off, and the others are scheduled."""
        try:
            await work
        except Exception as error:
            _log.exception("Scheduling failed", pod=queued.info.key, err=error)
            self._count("error")
            self._cache.forget(queued.info.uid)
            if queued.place is Place.TAKEN:
                self.queue.failed(queued)
        finally:
            self._slots.release()

    def _schedule(self, queued: QueuedPod) -> Any:
        """Decide, and return what is left to do beside the loop; None when there is nothing."""
        pod = queued.info
        if is_deleting(pod.pod) or self._cache.holds(pod.uid):
            self.queue.done(queued)
            return None
        began = self._clock.monotonic()
        try:
            outcome = self._cycle.decide(pod)
        except Exception as error:
            _log.exception("Scheduling failed", pod=pod.key, err=error)
            self._count("error")
            self.queue.failed(queued)
            return None
        self._measures.duration.labels(self._profile.scheduler_name).observe(self._clock.monotonic() - began)
        if isinstance(outcome, Refusal):
            self._count("unschedulable")
            return self._refuse(queued, outcome)
        self._cache.assume(pod, outcome.node)
        status = self._reserve(queued, outcome)
        if status is not None:
            self._give_back(queued, outcome, status)
            return self._report_refusal(pod.pod, status.message)
        return self._bind(queued, outcome)

    def _refuse(self, queued: QueuedPod, refusal: Refusal) -> Any:
        """Park the pod, and see whether less important ones should make room."""
        self.queue.refused(queued, refusal.plugins)
        pod, message = queued.info, refusal.message()
        helping = [work for each in self._profile.post_filters if (work := each.post_filter(refusal.state, pod)) is not None]
        return self._helped(helping, self._preempt(pod, refusal, message))

    async def _helped(self, helping: Sequence[Awaitable[object]], rest: Awaitable[None]) -> None:
        """What plugins do for a pod that fits nowhere; if it fails they will be asked again with the pod's next attempt."""
        for work in helping:
            try:
                await work
            except (StatusError, ConnectionError) as error:
                _log.warning("A refused pod could not be helped", err=error)
        await rest

    def _preempt(self, pod: PodInfo, refusal: Refusal, message: str) -> Awaitable[None]:
        preemption = self._cycle.preempt(pod, refusal) if refusal.total else ""
        if isinstance(preemption, str):
            # While its victims are still leaving, the pod keeps the room it was promised: their replacements, which come
            # at once, would take it.
            if not refusal.total or self._cycle.may_preempt(pod):
                self._cache.unnominate(pod.uid)
            return self._report_refusal(pod.pod, f"{message} {preemption}".rstrip())
        self._cache.nominate(pod, preemption.node)
        return self._make_room(pod, preemption, message)

    async def _make_room(self, pod: PodInfo, preemption: Preemption, message: str) -> None:
        """Promise the node to the pod, then ask the victims to go; their departure wakes the pod."""
        _log.info("Preempting", pod=pod.key, node=preemption.node, victims=[victim.key for victim in preemption.victims])
        await self._report_refusal(pod.pod, message, nominated=preemption.node)
        for victim in preemption.victims:
            try:
                await self._evict(victim, pod, preemption.node)
            except (StatusError, ConnectionError) as error:
                if not isinstance(error, StatusError) or error.code != 404:
                    _log.warning("Victim could not be deleted", victim=victim.key, err=error)

    async def _evict(self, victim: PodInfo, pod: PodInfo, node: str) -> None:
        if is_deleting(victim.pod):
            return
        shown = clone({"status": {"conditions": list((victim.pod.get("status") or {}).get("conditions") or ())}})
        text = f"{self._profile.scheduler_name}: preempting to accommodate a higher priority pod"
        if set_condition(shown, "DisruptionTarget", "True", now=self._clock.now(), reason="PreemptionByScheduler", message=text):
            body = {"status": {"conditions": [get_condition(shown, "DisruptionTarget")]}}
            await self._client.patch(PODS, victim.name, body, STRATEGIC, victim.namespace, subresource="status")
        await self._client.delete(PODS, victim.name, victim.namespace, preconditions={"uid": victim.uid})
        self._recorder.event(
            victim.pod, "Normal", "Preempted", f"Preempted by pod {pod.uid} on node {node}", "Preempting", related=pod.pod
        )

    def _reserve(self, queued: QueuedPod, decision: Decision) -> Status | None:
        """Reserve and Permit; the first refusal counts."""
        for each in self._profile.reserves:
            status = each.reserve(decision.state, queued.info, decision.node)
            if status is not None:
                return status
        for permit in self._profile.permits:
            status, _ = permit.permit(decision.state, queued.info, decision.node)
            if status is not None:
                return status
        return None

    def _give_back(self, queued: QueuedPod, decision: Decision, status: Status | None) -> None:
        for each in reversed(self._profile.reserves):
            each.unreserve(decision.state, queued.info, decision.node)
        self._cache.forget(queued.info.uid)
        if status is not None and status.rejects:
            self.queue.refused(queued, {status.plugin})
        else:
            self.queue.failed(queued)

    async def _bind(self, queued: QueuedPod, decision: Decision) -> None:
        pod = queued.info
        try:
            status = await self._run_binds(queued, decision)
        except StatusError as error:
            await self._binding_failed(queued, decision, error)
            return
        except ConnectionError as error:
            _log.warning("Binding could not be sent", pod=pod.key, err=error)
            self._give_back(queued, decision, None)
            return
        if status is not None:
            self._give_back(queued, decision, status)
            await self._report_refusal(pod.pod, status.message)
            return
        self.queue.done(queued)
        self._count("scheduled")
        self._measures.end_to_end.labels(self._profile.scheduler_name).observe(self._clock.monotonic() - queued.added)
        why = decision.why()
        _log.v(2, "Bound", pod=pod.key, node=decision.node, why=why)
        text = f"Successfully assigned {pod.key} to {decision.node}"
        self._recorder.event(pod.pod, "Normal", "Scheduled", text, "Binding", annotations={WHY: why})

    async def _run_binds(self, queued: QueuedPod, decision: Decision) -> Status | None:
        for pre in self._profile.pre_binds:
            status = await self._pre_bind(pre, queued.info, decision)
            if status is not None:
                return status
        for each in self._profile.binds:
            status = await each.bind(decision.state, queued.info, decision.node)
            if status is None or status.code is not Code.SKIP:
                return status
        return Status(Code.ERROR, ("no bind plugin took the pod",))

    async def _pre_bind(self, plugin: PreBindPlugin, pod: PodInfo, decision: Decision) -> Status | None:
        """A plugin that waits for others, as for a volume to be made, gives its slot away for so long: it may be minutes."""
        if not plugin.waits(decision.state):
            return await plugin.pre_bind(decision.state, pod, decision.node)
        self._slots.release()
        try:
            return await plugin.pre_bind(decision.state, pod, decision.node)
        finally:
            await self._slots.acquire()

    async def _binding_failed(self, queued: QueuedPod, decision: Decision, error: StatusError) -> None:
        """Gone, or bound by somebody else: forget it, the informer will tell. Anything else: try again after a pause."""
        self._count("error")
        self._give_back(queued, decision, None)
        if error.code == 404:
            self.queue.done(queued)
            return
        _log.warning("Binding was refused", pod=queued.info.key, node=decision.node, err=error)
        await self._report_refusal(queued.info.pod, f"binding rejected: {error.message}", "SchedulerError")

    async def _report_refusal(self, pod: Object, message: str, reason: str = "Unschedulable", nominated: str = "") -> None:
        """An event for people, and the condition that autoscalers and ``kubectl`` read; written only when it changes."""
        self._recorder.event(pod, "Warning", "FailedScheduling", message, "Scheduling")
        shown = clone({"status": {"conditions": list((pod.get("status") or {}).get("conditions") or ())}})
        now = self._clock.now()
        changed = set_condition(shown, "PodScheduled", "False", now=now, reason=reason, message=message)
        if not changed and not nominated:
            return
        body: Object = {"status": {"conditions": [get_condition(shown, "PodScheduled")]}}
        if nominated:
            body["status"]["nominatedNodeName"] = nominated
        try:
            await self._client.patch(PODS, name_of(pod), body, STRATEGIC, namespace_of(pod), subresource="status")
        except (StatusError, ConnectionError) as error:
            _log.v(2, "Condition could not be written", pod=name_of(pod), err=error)

    def _count(self, result: str) -> None:
        self._measures.attempts.labels(result, self._profile.scheduler_name).inc()


def _poster(client: Client) -> Post:
    async def post(namespace: str, name: str, binding: dict[str, Any]) -> object:
        return await client.post_subresource(PODS, name, "binding", binding, namespace)

    return post
