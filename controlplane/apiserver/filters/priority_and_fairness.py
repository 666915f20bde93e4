"""API priority and fairness on a request's way: find its flow, guess its width, let it run, wait or go. See ``flowcontrol``.

Stands after impersonation (the flow is the one of whoever the request speaks for) and before authorization. What a connection's
requests belong to is remembered on it, so a read that finds a free seat is past this filter in a few microseconds. A watch
holds its seats until it has sent the state it begins with, other long-running requests have none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from controlplane.apiserver.filters.in_flight import READS
from controlplane.apiserver.filters.in_flight_counts import InFlight
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.filters.too_many import TooManyRequests
from controlplane.apiserver.flowcontrol.control import FlowControl
from controlplane.apiserver.flowcontrol.flow import Flow
from controlplane.apiserver.flowcontrol.queueset import CANCELLED, ONE_SEAT, TIMED_OUT, Request, Work
from controlplane.apiserver.flowcontrol.width import of_list, of_write
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import RequestInfo

ObjectStats = Callable[[RequestInfo], tuple[int, int] | None]
"""How many objects a request's resource has and their bytes; None when they are another server's or there is no such resource."""

_WRITES = frozenset({"create", "update", "patch", "delete"})
_WAIT_SHARE = 4  # a request may wait for this part of the time it has
_MOST_WAIT = 60.0
_REMEMBERED = 64  # kinds of request that are remembered on one connection
_SEEN = "flows"


def priority_and_fairness(control: FlowControl, stats: ObjectStats, counts: InFlight) -> Filter:
    def step(call: Call) -> Awaitable[None] | None:
        info = call.info
        verb = info.verb
        watching = verb == "watch"
        if not watching and is_long_running(call):
            return None
        flow = _flow(control, call)
        call.flow_headers = flow.headers
        work = ONE_SEAT if verb == "get" else _work(control, stats, call, flow)
        flow.stats.widths.add(work.seats)
        now = control.now()
        request = flow.level.queues.start(work, flow.hand, now)
        if isinstance(request, str):
            raise _refusal(flow, request, counts, call)
        seat = request.about = _Seat(control, counts, flow, request, call)
        if request.running:
            seat.begin(now)
            return None
        return _wait(seat, call)

    return step


def _flow(control: FlowControl, call: Call) -> Flow:
    memory = call.connection
    known = memory.get(_SEEN)
    if known is None or known[0] != control.generation or (known[1] is not call.user and known[1] != call.user):
        known = memory[_SEEN] = (control.generation, call.user, {})
    info = call.info
    key = (
        (info.verb, info.api_group, info.resource, info.subresource, info.namespace)
        if info.is_resource
        else (info.verb, info.path)
    )
    flows: dict[tuple[str, ...], Flow] = known[2]
    flow = flows.get(key)
    if flow is None:
        if len(flows) >= _REMEMBERED:
            flows.clear()
        flow = flows[key] = control.flow(call.user, info)
    return flow


def _work(control: FlowControl, stats: ObjectStats, call: Call, flow: Flow) -> Work:
    info = call.info
    if not info.is_resource:
        return ONE_SEAT
    if info.verb in ("list", "watch"):
        return of_list(info, call.query, stats(info), flow.level.most_seats)
    if info.verb in _WRITES:
        watches = control.watches.interested(info)
        flow.stats.watches.add(watches)
        return of_write(info, watches, flow.level.most_seats)
    return ONE_SEAT


class _Seat:
    """What one request holds in its level."""

    __slots__ = ("_control", "_counts", "_done", "_flow", "_kind", "_reading", "_where", "call", "future", "request")

    def __init__(self, control: FlowControl, counts: InFlight, flow: Flow, request: Request, call: Call) -> None:
        self._control, self._counts, self._flow, self.request, self.call = control, counts, flow, request, call
        self._reading = call.info.verb in READS
        self._kind = "watch" if call.info.verb == "watch" else "regular"
        self._where: tuple[str, str, str, str] | None = None
        self._done = False
        self.future: asyncio.Future[bool] | None = None  # of one that waits: whether it may run

    @property
    def flow(self) -> Flow:
        return self._flow

    def begin(self, now: float) -> None:
        stats, seats = self._flow.stats, self.request.work.seats
        stats.dispatched += 1
        stats.executing += 1
        stats.seats += seats
        stats.waited.add(now - self.request.arrived)
        self._counts.enter(self._reading)
        call = self.call
        if self._kind == "watch":
            self._where = self._control.watches.opened(call.info, call.query)
            call.on_caught_up = self._end
            call.finishers.append(self._close_watch)
        else:
            call.finishers.append(self._leave)

    def _leave(self, code: int) -> None:
        self._end()

    def _close_watch(self, code: int) -> None:
        self._end()
        if self._where is not None:
            self._control.watches.closed(self._where)

    def _end(self) -> None:
        """The seats are free; those of a write a little later."""
        if self._done:
            return
        self._done = True
        control, request = self._control, self.request
        request.about = None  # they hold each other, and would wait for the garbage collector
        now = control.now()
        stats, queues = self._flow.stats, self._flow.level.queues
        stats.executed[self._kind].add(now - request.started)
        stats.executing -= 1
        self._counts.leave(self._reading)
        lingers = queues.finish(request, now)
        if lingers > 0:
            asyncio.get_running_loop().call_later(lingers, self._release)
        else:
            stats.seats -= request.work.seats

    def _release(self) -> None:
        self._flow.stats.seats -= self.request.work.seats
        self._flow.level.queues.release(self.request, self._control.now())

    # ------------------------------------------------------------------ waiting

    def note_waiting(self, by: int) -> None:
        self._flow.stats.waiting += by
        self._flow.stats.waiting_seats += by * self.request.work.seats
        self._counts.waiting[self._reading] += by

    def wake(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def give_up(self) -> None:
        if self._flow.level.queues.abandon(self.request, self._control.now(), TIMED_OUT):
            assert self.future is not None
            if not self.future.done():
                self.future.set_result(False)

    def cancel(self) -> None:
        """Its client has gone. If it could run by now, the seat goes to the next."""
        now = self._control.now()
        if self._flow.level.queues.abandon(self.request, now, CANCELLED):
            self.note_refused(CANCELLED)
        else:
            self.begin(now)
            self._end()

    def note_refused(self, reason: str) -> None:
        stats = self._flow.stats
        stats.rejected[reason] = stats.rejected.get(reason, 0) + 1
        stats.waited_in_vain.add(self._control.now() - self.request.arrived)


async def _wait(seat: _Seat, call: Call) -> None:
    """In a queue, until there is room. Raises TooManyRequests when that takes too long."""
    loop = asyncio.get_running_loop()
    seat.future = loop.create_future()
    seat.request.wake = seat.wake
    seat.flow.stats.lengths.add(len(seat.request.queue.waiting) if seat.request.queue is not None else 0)
    timer = loop.call_later(min(call.seconds / _WAIT_SHARE, _MOST_WAIT), seat.give_up)
    seat.note_waiting(1)
    try:
        may_run = await seat.future
    except asyncio.CancelledError:
        seat.cancel()
        raise
    finally:
        timer.cancel()
        seat.note_waiting(-1)
    if not may_run:
        seat.note_refused(TIMED_OUT)
        raise _too_many(seat.flow)
    seat.begin(seat.request.started)


def _refusal(flow: Flow, reason: str, counts: InFlight, call: Call) -> TooManyRequests:
    flow.stats.rejected[reason] = flow.stats.rejected.get(reason, 0) + 1
    flow.stats.waited_in_vain.add(0.0)
    counts.dropped[call.info.verb in READS] += 1
    return _too_many(flow)


def _too_many(flow: Flow) -> TooManyRequests:
    flow.level.retry_after.note(int(time.time()))
    return TooManyRequests(flow.level.retry_after.seconds)
