"""What a pod worker does in each of its states: observe, decide, act, report. ``pod_workers`` decides which and when."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from apimachinery.objects import pods
from apimachinery.times import parse_time
from component import logs
from node.kubelet.cm.interface import DraError
from node.kubelet.interface import Mount, VolumeError
from node.kubelet.pleg import Pleg
from node.kubelet.pod_status import Failure, Inputs, pod_status
from node.kubelet.probes.manager import Instance, ProbeManager
from node.kubelet.probes.results import Kind
from node.kubelet.resize import actuator
from node.kubelet.resize.allocations import Allocations
from node.kubelet.resize.plan import asked
from node.kubelet.runtime import files, names
from node.kubelet.runtime.actions import Plan, Verdict, decide
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.manager import Outcome, RuntimeManager
from node.kubelet.runtime.observed import ObservedPod
from node.kubelet.status import StatusManager
from node.kubelet.volumes import mounts

_MAX_ROUNDS = 4
_RESIZE_AGAIN = 10.0
_log = logs.get(__name__)

Pod = Mapping[str, Any]


class ResourceManagers(Protocol):
    """Who gives CPUs, memory and devices to pods; see ``cm.container_manager``."""

    async def admit(self, pod: Pod) -> tuple[str, str] | None:
        """Give the pod what its containers are to own; (reason, message) if it cannot be had. Idempotent."""
        ...

    def forget(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        ...

    def health(self, uid: str, container: str) -> Sequence[Mapping[str, Any]]:
        """How what a container of that pod was given is: its ``allocatedResourcesStatus``."""
        ...


def _nothing_to_tell(container: str) -> Sequence[Mapping[str, Any]]:
    return ()


class Claims(Protocol):
    """Who makes the devices of claims ready; see ``cm.dra.manager``."""

    def wants(self, pod: Pod) -> bool:
        """Whether something of the pod's is not ready yet."""
        ...

    async def prepare(self, pod: Pod) -> None:
        """Idempotent. Raises DraError."""
        ...

    async def unprepare(self, pod_uid: str) -> None:
        """Idempotent. Raises DraError."""
        ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What every pod's worker works with."""

    host: Host
    pleg: Pleg
    manager: RuntimeManager
    probes: ProbeManager
    status: StatusManager
    network_problem: Callable[[], str] = field(default=str)
    runtime_name: str = "containerd"
    allocations: Allocations | None = None
    managers: ResourceManagers | None = None
    claims: Claims | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """``finished``: its containers have ended for good. ``again_after``: look again then even if nothing happens."""

    finished: bool = False
    again_after: float | None = None
    failure: Failure | None = None


class PodSync:
    """The steps for one pod. What it keeps between steps is only a memory of messages, never of the runtime's state."""

    def __init__(self, tools: Tools, uid: str) -> None:
        self._tools = tools
        self._uid = uid
        self._waiting: dict[str, tuple[str, str]] = {}
        self._refresh_at = 0.0
        self._first_seen: float | None = tools.host.clock.monotonic()
        self._admitted = False
        self.removed = False

    async def sync(self, pod: Pod) -> Result:
        """Bring the pod closer to running as it should. Raises what hinders it; the worker comes back."""
        observed = self._tools.pleg.get(self._uid)
        pod = self._allocated(pod, observed)
        if failure := await self._admit(pod, observed):
            return Result(failure=failure)
        status = self._report(pod, observed)
        if status["phase"] in ("Succeeded", "Failed"):
            return Result(finished=True)
        if failure := self._deadline_failure(pod, status):
            return Result(failure=failure)
        plan = decide(pod, observed, self._verdicts(pod, observed))
        outcome = Outcome()
        for _ in range(_MAX_ROUNDS):
            if plan.idle:
                break
            outcome = await self._act(pod, plan, observed)
            observed = await self._tools.pleg.relist_pod(self._uid)
            status = self._report(pod, observed)
            self._measure(status)
            if status["phase"] in ("Succeeded", "Failed"):
                return Result(finished=True)
            following = decide(pod, observed, self._verdicts(pod, observed))
            if following == plan or outcome.waiting:
                break
            plan = following
        if len(observed.sandboxes) > 1:
            await self._tools.manager.prune_sandboxes(observed)
        await self._resize(pod, observed, outcome)
        await self._refresh_volumes(pod, observed)
        return Result(again_after=self._again_after(pod, status, outcome))

    async def _admit(self, pod: Pod, observed: ObservedPod) -> Failure | None:
        """Have the pod given what it is to own, once. What runs already is never refused: it then shares with others."""
        if self._admitted or self._tools.managers is None or pods.is_terminal(pod):
            return None
        refused = await self._tools.managers.admit(pod)
        self._admitted = True
        if refused is None:
            return None
        reason, message = refused
        if observed.running():
            _log.warning("A pod that runs cannot be given what it asks for", uid=self._uid, reason=reason, message=message)
            return None
        self._tools.host.events.warning(pod, reason, message)
        return Failure(reason, f"Pod was rejected: {message}", rejected=True)

    def _allocated(self, pod: Pod, observed: ObservedPod) -> Pod:
        """The pod with the resources that it has been given, which may not be those that it now asks for."""
        allocations = self._tools.allocations
        return allocations.settle(pod, observed) if allocations is not None else pod

    async def _resize(self, pod: Pod, observed: ObservedPod, outcome: Outcome) -> None:
        allocations, host = self._tools.allocations, self._tools.host
        if allocations is None or (record := allocations.record(self._uid)) is None:
            return
        if record.lagging():
            if not await actuator.actuate(pod, observed, allocations, host):
                outcome.retry(_RESIZE_AGAIN)
            self._report(pod, observed)
        if record.refusal is not None:
            outcome.retry(host.config.sync_frequency)

    def _measure(self, status: Mapping[str, Any]) -> None:
        """How long a pod that this kubelet started took to run."""
        if self._first_seen is not None and status["phase"] == "Running":
            self._tools.host.metrics.pod_runs(self._tools.host.clock.monotonic() - self._first_seen)
            self._first_seen = None

    async def _act(self, pod: Pod, plan: Plan, observed: ObservedPod) -> Outcome:
        mounted: Mapping[str, Mount] = {}
        if plan.create_sandbox or plan.start or plan.start_init or plan.start_ephemeral:
            problem = self._tools.network_problem()
            if problem and not pods.is_host_network(pod):
                self._tools.host.events.warning(pod, "NetworkNotReady", f"network is not ready: {problem}")
                raise NetworkNotReadyError(problem)
            mounted = await self._mount(pod)
            await self._prepare_claims(pod, anew=plan.create_sandbox)
        outcome = await self._tools.manager.perform(pod, plan, observed, mounted)
        started = {*plan.start, *plan.start_init, *plan.start_ephemeral}
        if self._tools.allocations is not None:
            made = {name: given for name, given in asked(pod).items() if name in started and name not in outcome.waiting}
            self._tools.allocations.actuated(self._uid, made)
        kept = {name: why for name, why in self._waiting.items() if name not in started}
        self._waiting = {**kept, **outcome.waiting}
        return outcome

    async def _prepare_claims(self, pod: Pod, *, anew: bool) -> None:
        claims = self._tools.claims
        if claims is None or not (anew or claims.wants(pod)):
            return
        try:
            await claims.prepare(pod)
        except DraError as error:
            text = f"Failed to prepare dynamic resources: {error}"
            self._tools.host.events.warning(pod, "FailedPrepareDynamicResources", text)
            raise

    async def _mount(self, pod: Pod) -> Mapping[str, Mount]:
        host = self._tools.host
        pod_dir = host.config.pod_dir(self._uid)
        await asyncio.to_thread(files.make_pod_dirs, pod_dir)
        try:
            mounted = await host.volumes.mount(pod, pod_dir)
        except VolumeError as error:
            host.events.warning(pod, "FailedMount", str(error))
            raise
        self._schedule_refresh()
        return mounted

    async def _refresh_volumes(self, pod: Pod, observed: ObservedPod) -> None:
        host = self._tools.host
        if host.clock.monotonic() < self._refresh_at or not observed.running():
            return
        self._schedule_refresh()
        try:
            await host.volumes.refresh(pod)
        except VolumeError as error:
            host.events.warning(pod, "FailedMount", str(error))

    def _schedule_refresh(self) -> None:
        period = self._tools.host.refresh_period(self._tools.host.config.sync_frequency)
        self._refresh_at = self._tools.host.clock.monotonic() + period * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load

    def _again_after(self, pod: Pod, status: Mapping[str, Any], outcome: Outcome) -> float:
        host = self._tools.host
        waits = [max(1.0, self._refresh_at - host.clock.monotonic()) if self._refresh_at else host.config.sync_frequency]
        if outcome.retry_after is not None:
            waits.append(outcome.retry_after)
        if (left := self._deadline_left(pod, status)) is not None:
            waits.append(max(0.1, left))
        return min(waits)

    def _deadline_left(self, pod: Pod, status: Mapping[str, Any]) -> float | None:
        limit = pods.spec_of(pod).get("activeDeadlineSeconds")
        if limit is None or not status.get("startTime"):
            return None
        return float(limit) - (self._tools.host.clock.now() - parse_time(status["startTime"])).total_seconds()

    def _deadline_failure(self, pod: Pod, status: Mapping[str, Any]) -> Failure | None:
        left = self._deadline_left(pod, status)
        if left is None or left > 0:
            return None
        message = "Pod was active on the node longer than the specified deadline"
        self._tools.host.events.normal(pod, "DeadlineExceeded", message)
        return Failure("DeadlineExceeded", message)

    # The end

    async def stop(self, pod: Pod | None, grace: int | None, failure: Failure | None) -> None:
        """Stop everything of the pod and report its end; returns when nothing runs any more. Cancelling it is safe: the
        next call, perhaps with a shorter ``grace``, takes up where the runtime stands."""
        tools = self._tools
        tools.probes.stop_killing(self._uid)
        observed = await tools.pleg.relist_pod(self._uid)
        if pod is not None:
            self._report(pod, observed, failure=failure)
        await tools.manager.kill_pod(pod, observed, grace)
        observed = await tools.pleg.relist_pod(self._uid)
        if observed.stoppable() or any(sandbox.ready for sandbox in observed.sandboxes):
            raise RuntimeError("containers are still running after they were stopped")
        if tools.claims is not None:
            await tools.claims.unprepare(self._uid)  # before anybody is told that the pod has ended and its devices are free
        if pod is not None:
            self._report(pod, observed, failure=failure, stopped=True)
        tools.probes.remove(self._uid)
        if tools.managers is not None:
            tools.managers.forget(self._uid)
        await asyncio.to_thread(tools.host.users.release, self._uid)
        await tools.host.volumes.unmount(self._uid, tools.host.config.pod_dir(self._uid))
        await tools.host.cgroups.remove(self._uid)

    async def remove(self, pod: Pod | None) -> None:
        """Remove what is left of a dead pod from runtime and disk, and let it go from the API (``pod`` is None if it has
        gone already)."""
        tools = self._tools
        if pod is not None:
            tools.status.finalize(pod)
        else:
            tools.status.forget(self._uid)
        observed = await tools.pleg.relist_pod(self._uid)
        await tools.manager.remove_pod(observed)
        await tools.host.cgroups.remove(self._uid)  # again: a dead container can hold it until it is removed
        tools.manager.forget(self._uid)
        if tools.allocations is not None:
            tools.allocations.forget(self._uid)
        root = tools.host.config
        await asyncio.to_thread(mounts.remove_tree, root.pod_dir(self._uid))  # whatever is mounted in there, stays
        if observed.name:
            logs_of = names.pod_log_directory(root.pod_logs_dir, observed.namespace, observed.name, self._uid)
            await asyncio.to_thread(files.remove_tree, logs_of)
        await tools.pleg.relist_pod(self._uid)
        self.removed = True

    # Looking and telling

    def _report(
        self, pod: Pod, observed: ObservedPod, *, failure: Failure | None = None, stopped: bool = False
    ) -> Mapping[str, Any]:
        tools = self._tools
        previous = tools.status.get(self._uid) or pod.get("status") or {}
        node_ips = tools.host.node_ips()
        ips = node_ips if pods.is_host_network(pod) else observed.ips
        running = [Instance(each.id, each.name, each.started_at / 1e9) for each in observed.running()]
        tools.probes.sync(pod, running, ips[0] if ips else "", previous)
        given = Inputs(
            now=tools.host.clock.now(),
            previous=previous,
            waiting=self._waiting,
            ready=tools.probes.ready,
            started=tools.probes.started,
            node_ips=node_ips,
            runtime_name=tools.runtime_name,
            stopped=stopped,
            failure=failure,
            record=tools.allocations.record(self._uid) if tools.allocations is not None else None,
            resource_health=partial(tools.managers.health, self._uid) if tools.managers is not None else _nothing_to_tell,
            recursive=tools.host.recursive_read_only(),
        )
        status = pod_status(pod, observed, given)
        tools.status.set(pod, status if stopped else not_yet_over(status, previous))
        return status

    def _verdicts(self, pod: Pod, observed: ObservedPod) -> Mapping[str, Verdict]:
        """Only what is not plainly healthy."""
        probes = self._tools.probes
        found: dict[str, Verdict] = {}
        if self._tools.allocations is not None:
            found |= dict.fromkeys(actuator.restarting(pod, observed, self._tools.allocations), Verdict.RESIZE)
        for container in observed.running():
            failed = probes.failed(container.id)
            if failed is Kind.LIVENESS:
                found[container.id] = Verdict.LIVENESS_FAILED
            elif failed is Kind.STARTUP:
                found[container.id] = Verdict.STARTUP_FAILED
            elif not probes.started(container.id):
                found[container.id] = Verdict.STARTING
        return found


def not_yet_over(status: Mapping[str, Any], previous: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status to tell while something of the pod may still run: nobody must read Succeeded or Failed before that,
    because controllers then start a successor. Pure."""
    if status["phase"] not in ("Succeeded", "Failed") or previous.get("phase") in ("Succeeded", "Failed"):
        return status
    told = {key: value for key, value in status.items() if key not in ("reason", "message")}
    return {**told, "phase": previous.get("phase") or "Pending"}


class NetworkNotReadyError(Exception):
    """Pods with a network of their own wait until the runtime has one to give."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"network is not ready: {problem}")
