"""The shutdown manager: holds the machine back until pods have ended, lower priorities first.

``kubelet.py`` keeps it running where a grace period is configured. While the machine stops the node is not Ready and no pod
is let in (``pod_manager``). A kubelet that itself is stopped ends no pods: only the machine's stop does.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from component import logs
from component.clock import Clock
from component.metrics import Registry
from node.kubelet.pod_status import Failure
from node.kubelet.recorder import NORMAL, Sink, node_event
from node.kubelet.shutdown import plan
from node.kubelet.shutdown.logind import LogindError, Machine
from node.kubelet.shutdown.plan import Group

TERMINATED = Failure("Terminated", "Pod was terminated in response to imminent node shutdown.", disrupted=True)
NOT_ADMITTED = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
NOT_READY = "node is shutting down"
_POLL = 0.2
_log = logs.get(__name__)

Pod = Mapping[str, Any]


class Pods(Protocol):
    """The pods of this node, and their end."""

    def active_pods(self) -> Sequence[Pod]: ...

    def end(self, pod: Pod, failure: Failure, grace: int) -> None: ...

    def gone(self, pod: Pod) -> bool: ...


class ShutdownManager:
    """One per kubelet. ``stopping``: the machine is about to stop."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Machine]],
        groups: Sequence[Group],
        pods: Pods,
        clock: Clock,
        events: Sink,
        node_name: str,
        registry: Registry,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``connect`` reaches the machine for one :meth:`run`; ``changed`` is called when ``stopping`` changes, so that the node
        says so at once."""
        self._connect = connect
        self._groups = groups
        self._pods = pods
        self._clock = clock
        self._events = events
        self._node_name = node_name
        self._changed = changed
        self._began = registry.gauge("kubelet_graceful_shutdown_start_time_seconds", "When the last shutdown began, else 0.")
        self._ended = registry.gauge("kubelet_graceful_shutdown_end_time_seconds", "When its pods had ended, else 0.")
        self.stopping = False

    async def run(self) -> None:
        """Watch until cancelled. Raises LogindError when the machine's side is lost; it may be run again."""
        async with self._connect() as machine:
            await self._prepare(machine)
            try:
                async with asyncio.TaskGroup() as group:
                    await self._follow(machine, group)
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def _follow(self, machine: Machine, group: asyncio.TaskGroup) -> None:
        ending: asyncio.Task[None] | None = None
        async for stopping in machine.announcements():
            if stopping and not self.stopping:
                self._set(stopping=True)
                ending = group.create_task(self._end_pods(machine))
            elif not stopping and self.stopping:
                _log.info("The shutdown was cancelled")
                if ending is not None:
                    ending.cancel()
                    await asyncio.wait({ending})  # it lets the lock go, which is then taken anew
                self._set(stopping=False)
                await machine.inhibit()

    async def _prepare(self, machine: Machine) -> None:
        wanted = plan.inhibit_seconds(self._groups)
        allowed = await machine.max_delay()
        if allowed < wanted:
            await machine.extend_delay(wanted)
            allowed = await self._extended(machine, wanted)
            if allowed < wanted:
                raise LogindError(
                    f"systemd-logind holds a shutdown back for {allowed:g} s at most, {wanted} s are needed: "
                    "set InhibitDelayMaxSec in logind.conf"
                )
        await machine.inhibit()
        _log.info("Pods will be ended before the machine stops", seconds=wanted)

    async def _extended(self, machine: Machine, wanted: float) -> float:
        """It reads its configuration when it gets to it."""
        for _ in range(10):
            if (allowed := await machine.max_delay()) >= wanted:
                break
            await self._clock.sleep(_POLL)
        return allowed

    def _set(self, *, stopping: bool) -> None:
        self.stopping = stopping
        if stopping:
            node_event(self._events, self._node_name, NORMAL, "NodeShutdown", "Shutdown manager detected shutdown event")
        self._changed()

    async def _end_pods(self, machine: Machine) -> None:
        self._began.set(self._clock.now().timestamp())
        self._ended.set(0)
        try:
            for group, members in plan.assign(self._groups, self._pods.active_pods()):
                _log.info("Ending pods before the machine stops", priority=group.priority, pods=len(members))
                for pod in members:
                    self._pods.end(pod, TERMINATED, plan.grace(group, pod))
                until = self._clock.monotonic() + group.seconds
                while self._clock.monotonic() < until and not all(self._pods.gone(pod) for pod in members):
                    await self._clock.sleep(_POLL)
        finally:
            self._ended.set(self._clock.now().timestamp())
            machine.release()
