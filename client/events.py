"""Events: what a daemon tells people about an object, as events.k8s.io/v1.

``Recorder.event`` only puts a note into a bounded queue and never waits; ``Recorder.run`` is a child of the daemon's
TaskGroup and writes. A full queue drops the event and counts it. An event that repeats within six minutes is not written
again but becomes a series, whose count is patched.
"""

import asyncio
import contextlib
import copy
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import EVENTS
from apimachinery.times import format_micro_time
from client.rest import Client, PatchKind, is_already_exists, is_not_found
from component import logs
from component.clock import Clock
from component.metrics import Registry

NORMAL, WARNING = "Normal", "Warning"
_SERIES_SECONDS = 360.0
_PATCH_SECONDS = 5.0
"""The least time between two patches of one series; repeats in between are counted and written with the next."""
_QUEUE, _KNOWN = 1000, 4096
_MAX_NOTE, _MAX_WORD = 1024, 128
_TRIES = 12
_RETRY_SECONDS = 10.0
_log = logs.get(__name__)


@dataclass(slots=True)
class _Written:
    """An event that the server holds, and how often it happened."""

    name: str
    namespace: str
    count: int
    last: float
    observed: str = ""
    patched: float = float("-inf")
    put_off: bool = False


@dataclass(frozen=True, slots=True)
class _Pending:
    key: tuple[Any, ...]
    event: dict[str, Any]
    at: float
    again: bool = False
    """Not a new occurrence, but the time to write what has been counted."""


class _Stamps:
    """Hexadecimal times in nanoseconds, never twice the same: they make the names of events unique."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, seconds: float) -> str:
        self._last = max(int(seconds * 1e9), self._last + 1)
        return f"{self._last:x}"


class Recorder:
    """Records events for one component; ``instance`` tells its copies apart, such as the node's name.

    Daemons with several components make one Recorder, run it, and give each component its ``named`` view.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        clock: Clock | None = None,
        metrics: Registry | None = None,
        queue_size: int = _QUEUE,
    ) -> None:
        self._client = client
        self._component, self._instance = component, instance[:_MAX_WORD]
        self._clock = clock or client.clock
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(queue_size)
        self._series: OrderedDict[tuple[Any, ...], _Written] = OrderedDict()
        self._stamps = _Stamps()
        self._dropped = None
        if metrics is not None:
            self._dropped = metrics.counter(
                "event_recorder_dropped_total", "Events dropped because the queue was full or the server refused them."
            )

    def named(self, component: str) -> "Recorder":
        """A recorder for another component of the same daemon, which shares this one's queue and ``run``."""
        other = copy.copy(self)
        other._component = component
        return other

    def event(
        self,
        regarding: dict[str, Any],
        type: str,  # noqa: A002 - the field's name
        reason: str,
        note: str,
        action: str = "",
        related: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Tell that something happened to ``regarding``, an object or a reference. Returns at once, whatever happens.

        ``reason`` is why, in UpperCamelCase; ``action`` is what was done, the reason by default; ``note`` is for people.
        """
        subject = reference(regarding)
        namespace = subject.get("namespace") or "default"
        when = self._clock.now()
        note = note if len(note.encode()) <= _MAX_NOTE else note.encode()[: _MAX_NOTE - 3].decode(errors="ignore") + "..."
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.get('name', '')}.{self._stamps.next(when.timestamp())}", "namespace": namespace},
            "eventTime": format_micro_time(when),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "action": (action or reason)[:_MAX_WORD],
            "reason": reason[:_MAX_WORD],
            "regarding": subject,
            "note": note,
            "type": type,
        }
        if related is not None:
            event["related"] = reference(related)
        if annotations:
            event["metadata"]["annotations"] = dict(annotations)
        key = (self._component, type, event["action"], reason, note, *_identity(subject), *_identity(event.get("related") or {}))
        try:
            self._queue.put_nowait(_Pending(key, event, self._clock.monotonic()))
        except asyncio.QueueFull:
            self._drop("the queue is full", event)

    async def run(self) -> None:
        """Write what was recorded, until cancelled; what is still queued then gets one short chance."""
        try:
            while True:
                await self._write(await self._queue.get())
        finally:
            await self._flush()

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                while not self._queue.empty():
                    pending = self._queue.get_nowait()
                    await self._send(pending)
        except (TimeoutError, StatusError, ConnectionError):
            _log.v(2, "Events lost at the end", count=self._queue.qsize())

    async def _write(self, pending: _Pending) -> None:
        for attempt in range(_TRIES):
            try:
                await self._send(pending)
                return
            except StatusError as error:
                if not _passing(error):
                    # a namespace on its way out refuses new objects: nobody will miss the event
                    self._drop(error.message, pending.event)
                    return
            except ConnectionError as error:
                _log.v(2, "Event could not be sent, will try again", attempt=attempt, err=error)
            except Exception as error:
                _log.exception("Event could not be built", err=error)
                return
            await self._clock.sleep(min(0.5 * 2**attempt, _RETRY_SECONDS))
        self._drop("too many failures", pending.event)

    async def _send(self, pending: _Pending) -> None:
        written = self._series.get(pending.key)
        if written is not None and pending.at - written.last < _SERIES_SECONDS:
            await self._repeat(pending, written)
            return
        if pending.again:
            return
        metadata = pending.event["metadata"]
        try:
            await self._client.create(EVENTS, pending.event)
        except StatusError as error:
            if not is_already_exists(error):
                raise
        self._remember(pending.key, _Written(metadata["name"], metadata["namespace"], 1, pending.at))

    async def _repeat(self, pending: _Pending, written: _Written) -> None:
        """Count one more, or write what was counted; a patch that would come too soon is put off, not dropped."""
        if not pending.again:
            written.count, written.last = written.count + 1, pending.at
            written.observed = pending.event["eventTime"]
            self._series.move_to_end(pending.key)
        wait = written.patched + _PATCH_SECONDS - self._clock.monotonic()
        if wait <= 0:
            await self._patch(pending, written)
        elif not written.put_off:
            written.put_off = True
            self._clock.call_later(wait, lambda: self._put_again(pending))

    def _put_again(self, pending: _Pending) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(_Pending(pending.key, pending.event, pending.at, again=True))

    async def _patch(self, pending: _Pending, written: _Written) -> None:
        series = {"count": written.count, "lastObservedTime": written.observed}
        try:
            await self._client.patch(EVENTS, written.name, {"series": series}, PatchKind.MERGE, written.namespace)
        except (StatusError, ConnectionError) as error:
            if is_not_found(error):
                # it has expired on the server: begin anew
                del self._series[pending.key]
                if not pending.again:
                    await self._send(pending)
            elif _passing(error):
                # the occurrence is counted already, so only the writing is tried again
                written.put_off = True
                self._clock.call_later(_RETRY_SECONDS, lambda: self._put_again(pending))
            else:
                self._drop(str(error), pending.event)
            return
        written.patched, written.put_off = self._clock.monotonic(), False

    def _remember(self, key: tuple[Any, ...], written: _Written) -> None:
        self._series[key] = written
        self._series.move_to_end(key)
        while len(self._series) > _KNOWN or _oldest(self._series).last + _SERIES_SECONDS < written.last:
            self._series.popitem(last=False)  # the longest untold; one that is over begins anew anyway

    def _drop(self, why: str, event: dict[str, Any]) -> None:
        if self._dropped is not None:
            self._dropped.inc()
        subject = event["regarding"].get("name")
        _log.v(2, "Event dropped", why=why, regarding=subject, reason=event["reason"], note=event["note"])


def _oldest(series: OrderedDict[tuple[Any, ...], _Written]) -> _Written:
    return next(iter(series.values()))


def reference(obj: dict[str, Any]) -> dict[str, Any]:
    """The ObjectReference of an object; what is a reference already is returned as it is."""
    metadata = obj.get("metadata")
    if metadata is None:
        return obj
    found = {
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "apiVersion": obj.get("apiVersion"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {key: value for key, value in found.items() if value}


def _passing(error: Exception) -> bool:
    """Whether the failure may be over by the next try."""
    return not isinstance(error, StatusError) or error.code >= 500 or error.code == 429


def _identity(subject: dict[str, Any]) -> tuple[Any, ...]:
    return (subject.get("kind"), subject.get("namespace"), subject.get("name"), subject.get("uid"), subject.get("fieldPath"))
