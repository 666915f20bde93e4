"""Owns the probe workers of all pods, and their results by container id.

Pod workers call :func:`sync` after every look at the runtime and :func:`remove` at the end; a result that changes wakes the
pod's worker through ``changed``. The manager's tasks live in the TaskGroup it is given.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from apimachinery.meta import is_deleting, uid_of
from apimachinery.objects import pods
from component import logs
from component.clock import Clock
from node.kubelet import handlers
from node.kubelet.probes import prober, worker
from node.kubelet.probes.counts import ProbeCounts
from node.kubelet.probes.results import Attempt, Kind, Outcome, Settings
from node.kubelet.recorder import PodEvents

Pod = Mapping[str, Any]
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Instance:
    """One running container instance, as far as probes care."""

    id: str
    name: str
    started_at: float  # seconds since 1970


@dataclass(slots=True)
class _State:
    """Results and workers of one instance."""

    uid: str
    has: frozenset[Kind]
    standing: dict[Kind, Outcome] = field(default_factory=dict)
    tasks: dict[Kind, asyncio.Task[None]] = field(default_factory=dict)


class ProbeManager:
    """See the module. ``now`` in results: absent readiness is not ready, absent liveness is alive."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        run: prober.Exec,
        clock: Clock,
        events: PodEvents,
        changed: Callable[[str], None],
        node_ip: Callable[[], str],
        counts: ProbeCounts | None = None,
    ) -> None:
        self._counts = counts
        self._group = group
        self._run = run
        self._clock = clock
        self._events = events
        self._changed = changed
        self._node_ip = node_ip
        self._states: dict[str, _State] = {}
        self._pods: dict[str, Pod] = {}
        self._addresses: dict[str, str] = {}

    def sync(self, pod: Pod, running: list[Instance], ip: str, reported: Mapping[str, Any]) -> None:
        """Probe exactly the instances in ``running``. ``reported`` is the status before: what was ready and started by the
        same container id stays so until a probe says otherwise, so a restart of the kubelet makes nobody unready."""
        uid = uid_of(pod)
        self._pods[uid], self._addresses[uid] = pod, handlers.address(pod, ip, self._node_ip())
        alive = {instance.id for instance in running}
        for gone in [cid for cid, state in self._states.items() if state.uid == uid and cid not in alive]:
            self._stop(gone)
        for instance in running:
            container = next((each for each in pods.all_containers(pod) if each["name"] == instance.name), None)
            if container is None:
                continue
            state = self._states.get(instance.id)
            if state is None:
                state = self._adopt(uid, container, instance, reported)
            self._start_due(pod, container, instance, state)

    def ready(self, container_id: str) -> bool:
        state = self._states.get(container_id)
        if state is None or Kind.READINESS not in state.has:
            return True
        return state.standing.get(Kind.READINESS) is Outcome.SUCCESS

    def started(self, container_id: str) -> bool:
        state = self._states.get(container_id)
        if state is None or Kind.STARTUP not in state.has:
            return True
        return state.standing.get(Kind.STARTUP) is Outcome.SUCCESS

    def failed(self, container_id: str) -> Kind | None:
        """The probe for which the instance must be killed, if any."""
        state = self._states.get(container_id)
        if state is None:
            return None
        for kind in (Kind.STARTUP, Kind.LIVENESS):
            if state.standing.get(kind) is Outcome.FAILURE:
                return kind
        return None

    def stop_killing(self, uid: str) -> None:
        """The pod is ending: liveness and startup no longer matter, readiness goes on."""
        for state in self._states.values():
            if state.uid == uid:
                for kind in (Kind.LIVENESS, Kind.STARTUP):
                    if task := state.tasks.pop(kind, None):
                        task.cancel()
                    state.standing.pop(kind, None)
                state.has &= {Kind.READINESS}

    def ended(self, container_id: str) -> None:
        """The container was stopped: what its probes last said stands until the runtime's state is looked at again, but there is
        nothing to ask any more, and no failure to tell."""
        state = self._states.get(container_id)
        for task in state.tasks.values() if state is not None else ():
            task.cancel()

    def remove(self, uid: str) -> None:
        for gone in [cid for cid, state in self._states.items() if state.uid == uid]:
            self._stop(gone)
        self._pods.pop(uid, None)
        if self._counts is not None:
            self._counts.forget(uid)
        self._addresses.pop(uid, None)

    def _adopt(self, uid: str, container: Mapping[str, Any], instance: Instance, reported: Mapping[str, Any]) -> _State:
        state = _State(uid, frozenset(kind for kind in Kind if container.get(kind.field)))
        for field_name in ("containerStatuses", "initContainerStatuses"):
            for before in reported.get(field_name) or ():
                if str(before.get("containerID") or "").endswith(f"//{instance.id}"):
                    if before.get("ready"):
                        state.standing[Kind.READINESS] = Outcome.SUCCESS
                    if before.get("started"):
                        state.standing[Kind.STARTUP] = Outcome.SUCCESS
        self._states[instance.id] = state
        return state

    def _start_due(self, pod: Pod, container: Mapping[str, Any], instance: Instance, state: _State) -> None:
        """Startup first; the others once it has succeeded."""
        due = {Kind.LIVENESS, Kind.READINESS} if self.started(instance.id) else {Kind.STARTUP}
        wanted = due & state.has
        if is_deleting(pod):
            wanted &= {Kind.READINESS}
        for kind in wanted:
            if kind not in state.tasks:
                state.tasks[kind] = self._group.create_task(
                    self._probe(kind, container, instance, state), name=f"probe {kind.value} {instance.name}"
                )

    async def _probe(self, kind: Kind, container: Mapping[str, Any], instance: Instance, state: _State) -> None:
        probe = container[kind.field]
        settings = Settings.of(probe)
        known = state.standing.get(kind) is Outcome.SUCCESS
        if known:
            await self._clock.sleep(random.uniform(0, min(settings.period, 10)))  # noqa: S311 - spreads the load of a restart
        hooks = worker.Hooks(
            attempt=partial(self._attempt, kind, container, instance, state, settings),
            settled=partial(self._settled, kind, state),
            failed=partial(self._note, kind, container, state),
        )
        running_for = max(0.0, self._clock.now().timestamp() - instance.started_at)  # the clock may have been set back
        try:
            await worker.work(kind, settings, self._clock, hooks, running_for, known=known)
        except Exception as error:  # one broken probe must not take the kubelet down; its last verdict stands
            _log.exception("Probe stopped", probe=kind.value, container=instance.name, err=error)

    async def _attempt(
        self, kind: Kind, container: Mapping[str, Any], instance: Instance, state: _State, settings: Settings
    ) -> Attempt:
        probe = container[kind.field]
        address, began = self._addresses.get(state.uid, ""), self._clock.monotonic()
        attempt = await prober.probe_once(probe, container, instance.id, address, settings.timeout, self._run)
        pod = self._pods.get(state.uid)
        if self._counts is not None and pod is not None:
            self._counts.count(pod, str(container["name"]), kind, attempt.outcome, self._clock.monotonic() - began)
        return attempt

    def _settled(self, kind: Kind, state: _State, outcome: Outcome) -> None:
        if state.standing.get(kind) is not outcome:
            state.standing[kind] = outcome
            self._changed(state.uid)

    def _note(self, kind: Kind, container: Mapping[str, Any], state: _State, attempt: Attempt) -> None:
        pod = self._pods.get(state.uid)
        if pod is None:
            return
        how = "failed" if attempt.outcome is Outcome.FAILURE else "errored and resulted in unknown state"
        self._events.warning(pod, "Unhealthy", f"{kind.value} probe {how}: {attempt.output}", str(container["name"]))

    def _stop(self, container_id: str) -> None:
        state = self._states.pop(container_id)
        for task in state.tasks.values():
            task.cancel()
