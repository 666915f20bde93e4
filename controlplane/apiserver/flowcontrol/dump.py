"""What goes on in the queues at this moment, as upstream's tables for ``/debug/api_priority_and_fairness/``. Pure.

Served by ``endpoints.paths``; only administrators may read it, as any path that nobody was given.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.apiserver.flowcontrol.flow import Level
from controlplane.apiserver.flowcontrol.queueset import Request

_LEVEL = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
)
_QUEUE = (
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
)
_REQUEST = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",  # as upstream spells it
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
)
_DETAILS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_NEVER = "0001-01-01T00:00:00Z"


def priority_levels(levels: Mapping[str, Level]) -> str:
    rows: list[Sequence[Any]] = []
    for name in sorted(levels):
        queues, counts = levels[name].queues, levels[name].queues.counts
        active = sum(bool(queue.waiting) for queue in queues.queues())
        state = (active, _bool(queues.idle), _bool(levels[name].quiescing), queues.waiting, queues.executing)
        rows.append((name, *state, counts.dispatched, counts.rejected, counts.timed_out, counts.cancelled))
    return _table(_LEVEL, rows)


def queues(levels: Mapping[str, Level]) -> str:
    rows: list[Sequence[Any]] = []
    for name in sorted(levels):
        for queue in levels[name].queues.queues():
            initial = sum(request.work.initial for request in queue.waiting)
            most = sum(request.work.seats for request in queue.waiting)
            numbers = (queue.index, len(queue.waiting), queue.executing, queue.seats, _seat_seconds(queue.next_dispatch))
            rows.append((name, *numbers, initial, most, _seat_seconds(queue.waiting_work)))
    return _table(_QUEUE, rows)


def requests(levels: Mapping[str, Level], wall: float, now: float, details: bool) -> str:
    """``wall`` is the present time since 1970, ``now`` the same moment on the queues' clock."""

    def shown(moment: float) -> str:
        return datetime.fromtimestamp(wall - now + moment, UTC).isoformat().replace("+00:00", "Z")

    rows: list[Sequence[Any]] = []
    for name in sorted(levels):
        for queue, place, request in _all(levels[name]):
            seat, work = request.about, request.work
            times = (shown(request.arrived), work.initial, work.final, f"{work.extra:g}s")
            started = shown(request.started) if request.running else _NEVER
            row = (name, seat.flow.schema.name, queue, place, seat.flow.distinguisher, *times, started)
            rows.append((*row, *_details(seat)) if details else row)
    return _table((*_REQUEST, *_DETAILS) if details else _REQUEST, rows)


def _all(level: Level) -> Iterator[tuple[int, int, Request]]:
    for request in level.queues.queueless:
        yield -1, -1, request
    for queue in level.queues.queues():
        for place, request in enumerate(queue.waiting):
            yield queue.index, place, request


def _details(seat: Any) -> Sequence[str]:
    info = seat.call.info
    version = f"{info.api_group}/{info.api_version}" if info.api_group else info.api_version
    return seat.call.user.name, info.verb, info.path, info.namespace, info.name, version, info.resource, info.subresource


def _seat_seconds(value: float) -> str:
    return f"{value:.8f}ss"


def _bool(value: bool) -> str:
    return str(value).lower()


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns end in a comma and are padded, save the last."""
    cells = [[*(f"{cell}," for cell in row[:-1]), str(row[-1])] for row in (columns, *rows)]
    widths = [max(max(map(len, column)) + 1, 8) for column in zip(*cells, strict=True)][:-1]
    lines = ["".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)) for row in cells]
    return "\n".join(lines) + "\n"
