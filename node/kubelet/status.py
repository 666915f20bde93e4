"""The status manager: holds the latest status of every pod and brings it to the API server, newest only.

Pod workers call :func:`set` and, when everything of a deleted pod is gone, :func:`finalize`; a few senders (``run``) turn that
into one strategic merge patch per change, holding just what differs, and one delete with grace 0. What cannot be sent is
tried again with back-off; an older status is never sent after a newer one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery.errors import StatusError, is_another
from apimachinery.meta import get_condition, name_of, namespace_of, uid_of
from apimachinery.resources import PODS
from client.rest import STRATEGIC, Client
from client.workqueue import ShutDownError, WorkQueue
from component import logs
from component.clock import Clock
from node.kubelet.resize.plan import IN_PROGRESS, PENDING

_SENDERS = 4
_OWNED = (
    "phase", "reason", "message", "startTime", "hostIP", "hostIPs", "podIP", "podIPs", "initContainerStatuses",
    "containerStatuses", "ephemeralContainerStatuses", "observedGeneration",
)  # fmt: skip
_PASSING = (PENDING, IN_PROGRESS)  # conditions of ours that are taken away again
_MERGED = ("podIPs", "hostIPs")  # lists with a merge key: a patch would only add to them
_log = logs.get(__name__)

Status = Mapping[str, Any]


@dataclass(slots=True)
class _Entry:
    pod: Mapping[str, Any]
    status: Status
    base: Status = field(default_factory=dict)  # what the API server is known to hold
    finalize: bool = False


class StatusManager:
    """See the module. One per kubelet."""

    def __init__(
        self, client: Client, clock: Clock, reported_as: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda pod: pod
    ) -> None:
        """``reported_as`` names the pod in the API for one of this node: itself, a static pod's mirror, or none yet."""
        self._client = client
        self._reported_as = reported_as
        self._entries: dict[str, _Entry] = {}
        self._queue: WorkQueue[str] = WorkQueue("pod-status", clock)

    def get(self, uid: str) -> Status | None:
        """The latest status, sent or not."""
        entry = self._entries.get(uid)
        return entry.status if entry else None

    def set(self, pod: Mapping[str, Any], status: Status) -> bool:
        """Replace the status of a pod; whether anything changed."""
        uid = uid_of(pod)
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(pod, {}, pod.get("status") or {})
        entry.pod = pod
        if entry.status == status:
            return False
        entry.status = status
        if difference(entry.base, status):
            self._queue.add(uid)
        return True

    def finalize(self, pod: Mapping[str, Any]) -> None:
        """Nothing of the deleted pod is left on this node: let it go from the API, after its last status."""
        uid = uid_of(pod)
        entry = self._entries.setdefault(uid, _Entry(pod, pod.get("status") or {}, pod.get("status") or {}))
        entry.pod, entry.finalize = pod, True
        self._queue.add(uid)

    def reconcile(self, pod: Mapping[str, Any]) -> None:
        """The API server shows another status than ours (somebody wrote over it): send ours again."""
        self.resend(pod, pod.get("status") or {})

    def resend(self, pod: Mapping[str, Any], held: Status) -> None:
        """The pod under which ``pod`` is reported is new, or shows ``held``: send what differs."""
        entry = self._entries.get(uid_of(pod))
        if entry is not None:
            entry.base = held
            if entry.status and difference(held, entry.status):
                self._queue.add(uid_of(pod))

    def forget(self, uid: str) -> None:
        """The pod is gone from the API."""
        self._entries.pop(uid, None)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_SENDERS):
                group.create_task(self._send_all(), name=f"status sender {number}")

    async def _send_all(self) -> None:
        while True:
            try:
                uid = await self._queue.get()
            except ShutDownError:
                return
            try:
                await self._send(uid)
                self._queue.forget(uid)
            except (StatusError, OSError) as error:
                _log.warning("Cannot report a pod's status", uid=uid, err=error)
                self._queue.add_rate_limited(uid)
            finally:
                self._queue.done(uid)

    async def _send(self, uid: str) -> None:
        entry = self._entries.get(uid)
        target = self._reported_as(entry.pod) if entry is not None else None
        if entry is None or target is None:
            return
        namespace, name = namespace_of(target), name_of(target)
        if changes := difference(entry.base, entry.status):
            body = {"metadata": {"uid": uid_of(target)}, "status": changes}
            try:
                stored = await self._client.patch(PODS, name, body, STRATEGIC, namespace, subresource="status")
            except StatusError as error:
                if not _is_gone(error):
                    raise
                self._entries.pop(uid, None)  # deleted, or another pod has its name now
                return
            entry.base = stored.get("status") or {}
        if entry.finalize and uid_of(target) == uid:
            await self._delete(uid, namespace, name)

    async def _delete(self, uid: str, namespace: str, name: str) -> None:
        try:
            await self._client.delete(PODS, name, namespace, grace=0, preconditions={"uid": uid})
        except StatusError as error:
            if not _is_gone(error):
                raise
        self._entries.pop(uid, None)


def difference(base: Status, wanted: Status) -> dict[str, Any]:
    """The strategic merge patch that makes ``base`` say what ``wanted`` says; empty when it does already. Pure.

    Conditions are merged by type, so those of other writers survive.
    """
    changes: dict[str, Any] = {}
    for name in _OWNED:
        before, after = base.get(name), wanted.get(name)
        if before == after:
            continue
        changes[name] = [{"$patch": "replace"}, *after] if name in _MERGED and before and after else after
    changed = []
    for each in wanted.get("conditions") or ():
        held = get_condition({"status": base}, each["type"])
        if not _same(held, each):
            cleared = {key: None for key in ("reason", "message") if held and key in held and key not in each}
            changed.append({**each, **cleared})
    told = {each["type"] for each in wanted.get("conditions") or ()}
    held_types = [each["type"] for each in base.get("conditions") or ()]
    changed += [{"type": name, "$patch": "delete"} for name in held_types if name in _PASSING and name not in told]
    if changed:
        changes["conditions"] = changed
    return changes


def _same(held: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    return held is not None and all(
        held.get(key) == wanted.get(key) for key in ("status", "reason", "message", "lastTransitionTime", "observedGeneration")
    )


def _is_gone(error: StatusError) -> bool:
    return error.code == 404 or is_another(error)
