"""The pod lifecycle event generator: the runtime's state, kept fresh, and a nudge to a pod's worker when it changed.

``run`` relists everything once a second: that is the truth. The runtime's event stream, where there is one (containerd 1.7
and later), only makes it quicker, and a worker that has just acted relists its own pod. Statuses are fetched only for
instances whose state changed, so an idle node costs two calls a second.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from component import logs
from component.clock import Clock
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.interface import RuntimeService
from node.kubelet.runtime import names, termination
from node.kubelet.runtime.observed import (
    STATES,
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    container_of,
    pod_of,
    sandbox_of,
)

_RELIST_PERIOD = 1.0
# After an event: several make one look, and that a container ran out of memory is often told after that it has ended.
_SETTLE = 0.05
_UNHEALTHY_AFTER = 180.0
_log = logs.get(__name__)

_Items = tuple[list[pb.PodSandbox], list[pb.Container]]


class Pleg:
    """One per kubelet. ``changed(uid)`` is called whenever the observation of a pod differs from the last one."""

    def __init__(
        self,
        runtime: RuntimeService,
        clock: Clock,
        changed: Callable[[str], None],
        relisted: Callable[[float, Mapping[str, ObservedPod]], None] = lambda seconds, pods: None,
    ) -> None:
        """``relisted`` hears how long each look at everything took, and what it saw."""
        self._runtime = runtime
        self._clock = clock
        self._changed = changed
        self._relisted = relisted
        self._pods: dict[str, ObservedPod] = {}
        self._seen: dict[str, int] = {}  # the number of the listing a pod's entry comes from
        self._number = 0
        self._last_relist: float | None = None
        self._hint = asyncio.Event()

    def get(self, uid: str) -> ObservedPod:
        """The last observation; empty for a pod the runtime knows nothing of."""
        return self._pods.get(uid) or ObservedPod(uid)

    def pods(self) -> Mapping[str, ObservedPod]:
        """All pods the runtime knows, by uid. Do not change."""
        return self._pods

    def unhealthy(self) -> str:
        """Why the node should not be Ready, or an empty string."""
        if self._last_relist is None:
            return "pleg has yet to be successful"
        elapsed = self._clock.monotonic() - self._last_relist
        if elapsed > _UNHEALTHY_AFTER:
            return f"pleg was last seen active {elapsed:.0f}s ago; threshold is 3m0s"
        return ""

    async def run(self) -> None:
        """Relist once a second, sooner after an event, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="pleg events")
            while True:
                self._hint.clear()
                try:
                    await self.relist()
                except errors.RuntimeServiceError as error:
                    _log.error("Cannot list containers", err=error)
                await self._pause()

    async def relist(self) -> None:
        """Look at everything once."""
        number, began = self._next_number(), self._clock.monotonic()
        sandboxes = await self._runtime.list_pod_sandboxes()
        containers = await self._runtime.list_containers()
        for uid, items in _by_pod(sandboxes, containers).items():
            await self._take(uid, items, number)
        known = {sandbox.labels.get(names.POD_UID, "") for sandbox in sandboxes}
        known |= {container.labels.get(names.POD_UID, "") for container in containers}
        for uid in [uid for uid, seen in self._seen.items() if uid not in known and seen < number]:
            if uid in self._pods:
                self._drop(uid, number)
            else:
                del self._seen[uid]  # no listing that is still under way can be older
        self._last_relist = self._clock.monotonic()
        self._relisted(self._last_relist - began, self._pods)

    async def relist_pod(self, uid: str) -> ObservedPod:
        """Look at one pod now. Called by its worker after each of its own actions."""
        number = self._next_number()
        selector = {names.POD_UID: uid}
        sandboxes = await self._runtime.list_pod_sandboxes(pb.PodSandboxFilter(label_selector=selector))
        containers = await self._runtime.list_containers(pb.ContainerFilter(label_selector=selector))
        items = _by_pod(sandboxes, containers).get(uid)
        if items is None:
            self._drop(uid, number, quiet=True)
        else:
            await self._take(uid, items, number, quiet=True)
        return self.get(uid)

    async def _listen(self) -> None:
        """Turn runtime events into an early relist. A runtime without events ends this quietly."""
        while True:
            try:
                async for _ in self._runtime.events():
                    self._hint.set()
            except errors.UnimplementedError:
                return
            except errors.RuntimeServiceError as error:
                _log.v(2, "Lost the runtime's events", err=error)
            await self._clock.sleep(5)

    async def _pause(self) -> None:
        began = self._clock.monotonic()
        timer = self._clock.call_later(_RELIST_PERIOD, self._hint.set)
        try:
            await self._hint.wait()
        finally:
            timer.cancel()
        if self._clock.monotonic() - began < _RELIST_PERIOD:
            await self._clock.sleep(_SETTLE)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    async def _take(self, uid: str, items: _Items, number: int, *, quiet: bool = False) -> None:
        """Replace a pod's entry by a newer listing; an older one that comes late is ignored."""
        if self._seen.get(uid, -1) > number:
            return
        held = self._pods.get(uid)
        if held is not None and _unchanged(held, items):
            self._seen[uid] = number
            return
        observed = await self._observe(uid, items, held or ObservedPod(uid))
        if self._seen.get(uid, -1) > number:
            return
        self._pods[uid], self._seen[uid] = observed, number
        if not quiet and observed != held:
            self._changed(uid)

    def _drop(self, uid: str, number: int, *, quiet: bool = False) -> None:
        gone = self._pods.pop(uid, None)
        self._seen[uid] = number  # stays, so that an older listing cannot bring the pod back
        if gone is not None and not quiet:
            self._changed(uid)

    async def _observe(self, uid: str, items: _Items, held: ObservedPod) -> ObservedPod:
        sandboxes, containers = items
        old_sandboxes = {each.id: each for each in held.sandboxes}
        old_containers = {each.id: each for each in held.containers}
        labels = (sandboxes[0] if sandboxes else containers[0]).labels
        return pod_of(
            uid,
            labels.get(names.POD_NAME, ""),
            labels.get(names.POD_NAMESPACE, ""),
            [await self._sandbox(listed, old_sandboxes.get(listed.id)) for listed in sandboxes],
            [await self._container(listed, old_containers.get(listed.id)) for listed in containers],
        )

    async def _sandbox(self, listed: pb.PodSandbox, held: ObservedSandbox | None) -> ObservedSandbox:
        ready = listed.state == pb.SANDBOX_READY
        if held is not None and held.ready == ready and (held.ips or held.host_network or not ready):
            return held
        try:
            return sandbox_of(listed, await self._runtime.pod_sandbox_status(listed.id))
        except errors.NotFoundError:
            return sandbox_of(listed, None)

    async def _container(self, listed: pb.Container, held: ObservedContainer | None) -> ObservedContainer:
        bare = container_of(listed, None)
        if held is not None and held.state is bare.state:
            return held
        try:
            status = await self._runtime.container_status(listed.id)
        except errors.NotFoundError:
            return bare
        if status.state == pb.CONTAINER_EXITED and (said := await termination.read_message(status)):
            status.message = said
        return container_of(listed, status)


def _by_pod(sandboxes: Iterable[pb.PodSandbox], containers: Iterable[pb.Container]) -> dict[str, _Items]:
    found: dict[str, _Items] = {}
    for sandbox in sandboxes:
        if uid := sandbox.labels.get(names.POD_UID):
            found.setdefault(uid, ([], []))[0].append(sandbox)
    for container in containers:
        if uid := container.labels.get(names.POD_UID):
            found.setdefault(uid, ([], []))[1].append(container)
    return found


def _unchanged(held: ObservedPod, items: _Items) -> bool:
    sandboxes, containers = items
    if len(sandboxes) != len(held.sandboxes) or len(containers) != len(held.containers):
        return False
    ready = {each.id: each.ready for each in held.sandboxes}
    states = {each.id: each.state for each in held.containers}
    return all(ready.get(each.id) == (each.state == pb.SANDBOX_READY) for each in sandboxes) and all(
        states.get(each.id) is STATES[each.state] for each in containers
    )
