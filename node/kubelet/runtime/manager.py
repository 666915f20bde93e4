"""Performs plans: the acting half of a pod worker. ``actions.decide`` made the plan; the worker looks again afterwards."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import uid_of
from apimachinery.objects import pods
from component import logs
from cri import errors
from node.kubelet.interface import Mount
from node.kubelet.runtime import names, sandbox, security
from node.kubelet.runtime.actions import Plan
from node.kubelet.runtime.backoff import Backoff
from node.kubelet.runtime.containers import Containers, Place, StartError
from node.kubelet.runtime.gate import SANDBOX, to_its_end
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod, State

_log = logs.get(__name__)

Pod = Mapping[str, Any]


class SandboxError(Exception):
    """The sandbox could not be made; tried again with back-off."""


@dataclass(slots=True)
class Outcome:
    """What the worker must know of a performed plan: why containers wait, and when to try again."""

    waiting: dict[str, tuple[str, str]] = field(default_factory=dict)
    retry_after: float | None = None

    def retry(self, seconds: float) -> None:
        self.retry_after = seconds if self.retry_after is None else min(self.retry_after, seconds)


class RuntimeManager:
    """One per kubelet, used by all pod workers at once; each pod's calls come from its own worker only."""

    def __init__(self, host: Host, ended: Callable[[str], None] = lambda container_id: None) -> None:
        """``ended`` hears of each container that was stopped."""
        self._host = host
        self._containers = Containers(host, ended)
        longest = host.config.max_container_restart_period
        self._restarts = Backoff(host.clock, initial=min(10.0, longest), maximum=longest)
        self._exits: dict[str, float] = {}  # by container id

    async def perform(self, pod: Pod, plan: Plan, observed: ObservedPod, volumes: Mapping[str, Mount]) -> Outcome:
        """Do what the plan says, in upstream's order: kill, sandbox, ephemeral, init, containers. Raises SandboxError."""
        outcome = Outcome()
        if plan.kill_pod:
            if plan.create_sandbox:
                self._host.events.normal(pod, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
            await self.kill_pod(pod, observed)
            if not plan.create_sandbox:
                return outcome
        if plan.reset is not None:
            await self._reset(pod, plan.reset, observed, outcome)
            return outcome
        await _all(self._containers.stop(pod, kill.container, kill.message, observed.ips, probe=kill.probe) for kill in plan.kill)
        starting = [*plan.start_ephemeral, *plan.start_init, *plan.start]
        if not plan.create_sandbox and not starting:
            return outcome
        place = await self._sandbox(pod, plan, observed, volumes)
        for name in starting:
            await self._start(place, name, outcome)
        return outcome

    async def _sandbox(self, pod: Pod, plan: Plan, observed: ObservedPod, volumes: Mapping[str, Mount]) -> Place:
        """The sandbox that is there, or a new one."""
        host, newest = self._host, observed.sandbox
        parent = await host.cgroups.ensure(pod)
        attempt = plan.attempt if plan.create_sandbox or newest is None else newest.attempt
        try:
            handler = await self._handler(pod)
            users = await asyncio.to_thread(host.users.of, pod, handler) if "hostUsers" in pods.spec_of(pod) else None
            config = sandbox.sandbox_config(pod, host.config, host.host_dns(), attempt, parent, host.limits, users)
            if not plan.create_sandbox and newest is not None:
                ips = host.node_ips() if newest.host_network else newest.ips
                return Place(pod, observed, newest.id, config, ips, volumes, users)
            async with host.gate.passing(SANDBOX):
                made = await to_its_end(host.runtime.run_pod_sandbox(config, handler))
            host.metrics.pod_started()
            status = await host.runtime.pod_sandbox_status(made)
        except (errors.RuntimeServiceError, StatusError, ValueError, OSError) as error:
            host.metrics.pod_started(error=True)
            host.events.warning(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            raise SandboxError(str(error)) from None
        own = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
        return Place(pod, observed, made, config, host.node_ips() if pods.is_host_network(pod) else own, volumes, users)

    async def _handler(self, pod: Pod) -> str:
        """Which of the runtime's handlers the pod's RuntimeClass names; "" for its own choice. Raises StatusError."""
        name = pods.spec_of(pod).get("runtimeClassName")
        return str((await self._host.objects.runtime_class(str(name)))["handler"]) if name else ""

    async def _start(self, place: Place, name: str, outcome: Outcome) -> None:
        """Start one container unless it is in back-off; what hinders it goes into the outcome."""
        container = next(each for each in pods.all_containers(place.pod) if each["name"] == name)
        key = f"{uid_of(place.pod)}_{name}_{names.container_hash(container)}"
        latest = place.observed.latest(name)
        if latest is not None and latest.state is State.EXITED:
            left = self._restarts.remaining(key, self._ended(latest))
            if left > 0:
                self._crash_loop(place.pod, name, key, left, outcome)
                return
            self._restarts.next(key)
        try:
            await self._containers.start(place, container)
        except StartError as error:
            self._host.metrics.container_started(error.reason)
            outcome.waiting[name] = (error.reason, str(error))
            outcome.retry(error.retry_after)
        else:
            self._host.metrics.container_started()

    async def _reset(self, pod: Pod, cause: ObservedContainer, observed: ObservedPod, outcome: Outcome) -> None:
        """Remove every container, so that all begin anew in the sandbox that is there. They are ended at once and no hook runs.

        The one whose exit asked for it goes last: a kubelet that dies meanwhile finds it and continues.
        """
        key = f"{uid_of(pod)}_{cause.name}_{cause.hash}"
        if (left := self._restarts.remaining(key, self._ended(cause))) > 0:
            self._crash_loop(pod, cause.name, key, left, outcome)
            return
        self._restarts.next(key)
        await _all(self._containers.stop(pod, each, "", observed.ips, 0) for each in observed.stoppable())
        for each in sorted(observed.containers, key=lambda each: each.id == cause.id):
            await self._host.runtime.remove_container(each.id)

    def _crash_loop(self, pod: Pod, name: str, key: str, left: float, outcome: Outcome) -> None:
        shown = security.pods_name(pod)
        note = f"Back-off restarting failed container {name} in pod {shown}"
        self._host.events.warning(pod, "BackOff", note, name)
        message = f"back-off {_duration(self._restarts.delay(key))} restarting failed container={name} pod={shown}"
        outcome.waiting[name] = ("CrashLoopBackOff", message)
        outcome.retry(left)

    def _ended(self, container: ObservedContainer) -> float:
        """When it exited, in the clock's monotonic time. The runtime dates by the wall clock, which may be set: it is asked
        once."""
        if container.id not in self._exits:
            ago = self._host.clock.now().timestamp() - container.finished_at / 1e9
            self._exits[container.id] = self._host.clock.monotonic() - max(0.0, ago)
        return self._exits[container.id]

    async def kill_pod(self, pod: Pod | None, observed: ObservedPod, grace: int | None = None) -> None:
        """Stop all containers, sidecars after the others and in reverse order, then the sandboxes. Raises ``cri.errors``."""
        began = self._host.clock.monotonic()
        init = pods.spec_of(pod).get("initContainers") or () if pod is not None else ()
        sidecars = [each["name"] for each in init if pods.is_sidecar(each)]
        running = observed.stoppable()
        stop = self._containers.stop
        await _all(stop(pod, each, "", observed.ips, grace) for each in running if each.name not in sidecars)
        for name in reversed(sidecars):
            left = None if grace is None else max(1, grace - int(self._host.clock.monotonic() - began))
            await _all(stop(pod, each, "", observed.ips, left) for each in running if each.name == name)
        for each in observed.sandboxes:
            # also of a sandbox that has died: its address and network namespace are let go by no one else
            with contextlib.suppress(errors.NotFoundError):
                await self._host.runtime.stop_pod_sandbox(each.id)

    async def remove_pod(self, observed: ObservedPod) -> None:
        """Forget a dead pod: its containers and sandboxes go from the runtime. Raises ``cri.errors``."""
        for each in observed.sandboxes:
            if each.ready:
                await self._host.runtime.stop_pod_sandbox(each.id)
            await self._host.runtime.remove_pod_sandbox(each.id)
        known = {each.id for each in observed.sandboxes}
        for container in observed.containers:
            if container.sandbox_id not in known:
                await self._host.runtime.remove_container(container.id)

    async def prune_sandboxes(self, observed: ObservedPod) -> None:
        """Remove dead sandboxes that hold no container any more, all but the newest."""
        used = {container.sandbox_id for container in observed.containers}
        for each in observed.sandboxes[1:]:
            if not each.ready and each.id not in used:
                await self._host.runtime.remove_pod_sandbox(each.id)

    def forget(self, uid: str) -> None:
        """The pod is gone for good."""
        self._host.images.forget(uid)

    def collect(self) -> None:
        """Called now and then: drops back-offs nobody needs."""
        self._restarts.collect()
        recent = self._host.clock.monotonic() - 2 * self._restarts.maximum
        self._exits = {cid: ended for cid, ended in self._exits.items() if ended > recent}


async def _all(stops: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for every one, then raise the first failure: one stubborn container must not spare the others."""
    results = await asyncio.gather(*stops, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _duration(seconds: float) -> str:
    """As Go prints it: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
