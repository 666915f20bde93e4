"""The queues of one priority level: who may run now, who waits, and who is next. Pure: time is an argument.

Fair queuing for server requests (upstream's KEP 1040). Seats are what a request occupies while it runs; seat-seconds are
work. In a virtual world all queues that have something to do get the same share of the seats at the same time; ``progress``
(upstream's R) is how many seat-seconds each of them has been given there. A request is sent on when its virtual finish is the
earliest. What it costs is only known when it is done: until then it counts as ``GUESS`` seconds, and the difference is put
right at the end. So a flow that asks for much waits behind flows that ask for little, whatever it sends.

Beside seats there are turns: no more than ``BURST`` seats' worth of requests begin in one turn of the event loop, and then the
other levels and the connections have theirs. Requests that never wait for anything would otherwise never be seen to share a seat.

Nothing here loops over all queues: a level that is not full costs a request two microseconds, one that is full a look at
those queues in which somebody waits.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GUESS = 0.003  # seconds that a request is thought to take until it is known
BURST = 16  # seats that may be taken between two turns; some of a wide request may be on top of it
CALM = 0.005  # seconds after which the turn has surely changed
EXEMPT, REJECT = -1, 0  # numbers of queues that stand for having no limit, and for having nowhere to wait
FULL_QUEUE, FULL_SEATS, TIMED_OUT, CANCELLED = "queue-full", "concurrency-limit", "time-out", "cancelled"
_STATES = 512  # different states whose times are kept before somebody must read them


@dataclass(frozen=True, slots=True)
class Shape:
    """How a level queues: ``queues`` of them (or EXEMPT, or REJECT), ``hand`` of which a flow may use, each of ``length``."""

    queues: int = REJECT
    hand: int = 1
    length: int = 0


class Work:
    """What a request is thought to occupy: ``initial`` seats while it runs, ``final`` seats for ``extra`` seconds after that."""

    __slots__ = ("extra", "final", "initial", "seats", "total")

    def __init__(self, initial: int, final: int = 0, extra: float = 0.0) -> None:
        self.initial, self.final, self.extra = initial, final, extra
        self.seats = max(initial, final)  # occupied in both phases
        self.total = initial * GUESS + final * extra  # seat-seconds

    def __repr__(self) -> str:
        return f"Work({self.initial}, {self.final}, {self.extra})"


ONE_SEAT = Work(1)


class _Queue:
    __slots__ = ("executing", "index", "next_dispatch", "seats", "waiting", "waiting_work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: OrderedDict[Request, None] = OrderedDict()
        self.waiting_work = 0.0
        self.executing: int = 0
        self.seats = 0
        self.next_dispatch = 0.0  # the progress at which the next request of this queue begins in the virtual world


class Request:
    """One request in a level. ``about`` belongs to the caller; ``wake`` is called when a waiting request may run."""

    __slots__ = ("about", "arrived", "progress", "queue", "started", "wake", "work")

    def __init__(self, work: Work, queue: _Queue | None, now: float, progress: float, about: Any) -> None:
        self.work, self.queue, self.arrived, self.progress, self.about = work, queue, now, progress, about
        self.started = -1.0  # when it began to run; negative while it waits
        self.wake: Callable[[], None] | None = None

    @property
    def running(self) -> bool:
        return self.started >= 0


@dataclass(slots=True)
class Counts:
    """What has happened so far."""

    dispatched: int = 0
    rejected: int = 0
    timed_out: int = 0
    cancelled: int = 0
    unfitting: int = 0  # the next in line needed more seats than were free


class QueueSet:
    """Call :meth:`start` for each request, then :meth:`finish` once it ran or :meth:`abandon` if it gave up waiting."""

    def __init__(self, shape: Shape, limit: int, now: float) -> None:
        self.shape, self.limit = shape, limit
        self.counts = Counts()
        self.executing = self.seats = self.waiting = self.waiting_seats = 0
        self.progress = 0.0
        self.dispatched_at = self.latest_start = 0.0  # progress at the last dispatch, and where that request began virtually
        self.peak = 0  # of seats in use and wanted, since the last reading
        self.times: dict[tuple[int, int, int, int], float] = {}  # seconds in each state: executing, seats, waiting, wanted
        self.on_full: Callable[[], None] | None = None  # called when there are many states, so that somebody reads them
        self.on_held: Callable[[], object] | None = None  # called once when requests wait for the next turn: :meth:`turn` is due
        self._held = False
        self._burst, self._burst_since = 0, now  # seats taken in this turn
        self.queueless: dict[Request, None] = {}  # running without a queue, where there are none
        self._since = now
        self._queues = [_Queue(index) for index in range(max(shape.queues, 0))]
        self._occupied: dict[_Queue, None] = {}  # in which somebody waits
        self._active = 0  # queues in which somebody waits or runs
        self._turn = 0  # requests queued so far: which card of a hand is looked at first
        self._last = -1  # the queue that had its turn last

    # ------------------------------------------------------------------ requests

    def start(self, work: Work, hand: Sequence[int], now: float, about: Any = None) -> Request | str:
        """A request that may run, or waits for its ``wake``; or the reason why it can do neither."""
        self._sync(now)
        if self.shape.queues <= 0:
            return self._start_without_queue(work, now, about)
        if now - self._burst_since > CALM and not self._held:
            self._burst, self._burst_since = 0, now
        at = self._turn % len(hand)
        self._turn += 1
        queue = self._queues[hand[at]]
        if self.waiting:
            queue = self._emptiest(hand, at)
            if self.seats >= self.limit and len(queue.waiting) >= self.shape.length:
                self.counts.rejected += 1
                return FULL_QUEUE
        elif self._in_turn() and self.seats < self.limit and self._fits(work.seats):  # nobody waits: as below, the short way
            request = Request(work, queue, now, self.progress, about)
            self._wake_queue(queue)
            if queue.next_dispatch < self.progress:
                queue.next_dispatch = self.progress
            self._run(request, queue, now)
            return request
        request = Request(work, queue, now, self.progress, about)
        self._wake_queue(queue)
        queue.waiting[request] = None
        queue.waiting_work += work.total
        self._occupied[queue] = None
        self.waiting += 1
        self.waiting_seats += work.seats
        self._bound(queue)
        self._note_demand()
        self._dispatch(now)
        return request

    def finish(self, request: Request, now: float) -> float:
        """It ran. Seconds after which :meth:`release` must be called for it; 0 when its seats are free already."""
        self._sync(now)
        work, queue = request.work, request.queue
        self.executing -= 1
        if queue is None:
            self.queueless.pop(request, None)
        else:
            queue.executing -= 1
            queue.next_dispatch -= work.initial * (GUESS - (now - request.started))
            self._bound(queue)
            if not queue.executing and not queue.waiting:
                self._active -= 1
        if work.extra <= 0:
            self._free(request)
        if self.waiting:
            self._dispatch(now)
        return work.extra

    def release(self, request: Request, now: float) -> None:
        """The work that a request left behind is done."""
        self._sync(now)
        self._free(request)
        self._dispatch(now)

    def abandon(self, request: Request, now: float, reason: str = CANCELLED) -> bool:
        """It no longer waits, because of ``reason``. False when it runs by now, and has to be finished."""
        queue = request.queue
        if request.running or queue is None or request not in queue.waiting:
            return False
        self._sync(now)
        self._take_out(request, queue)
        if not queue.waiting and not queue.executing:
            self._active -= 1
        self._bound(queue)
        self.counts.rejected += 1
        self.counts.timed_out += reason == TIMED_OUT
        self.counts.cancelled += reason == CANCELLED
        self._dispatch(now)  # what stood behind it may fit
        return True

    def turn(self, now: float) -> None:
        """The event loop has gone round: the next few may begin."""
        self._held = False
        self._burst, self._burst_since = 0, now
        self._sync(now)
        self._dispatch(now)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.executing

    # ------------------------------------------------------------------ configuration and readings

    def configure(self, shape: Shape, limit: int, now: float) -> None:
        """Whoever waits goes on waiting where he is; a queue that is no longer wanted goes when it is empty."""
        self._sync(now)
        if shape.queues <= 0 < self.shape.queues:
            shape = Shape(shape.queues, self.shape.hand, self.shape.length)
        while len(self._queues) < shape.queues:
            self._queues.append(_Queue(len(self._queues)))
        self.shape, self.limit = shape, limit
        self._drop_unwanted()
        self._dispatch(now)

    def take_times(self, now: float) -> dict[tuple[int, int, int, int], float]:
        """For how long each state held since the last reading."""
        self._sync(now)
        times, self.times = self.times, {}
        return times

    def take_peak(self) -> int:
        peak, self.peak = self.peak, self.seats + self.waiting_seats
        return peak

    def next_starts(self) -> Sequence[tuple[float, float]]:
        """For each queue in which somebody waits: where the next one begins virtually, and that without the work in progress."""
        return [(queue.next_dispatch, queue.next_dispatch - queue.seats * GUESS) for queue in self._occupied]

    def queues(self) -> Sequence[_Queue]:
        """For dumps and metrics; not to be changed."""
        return self._queues

    # ------------------------------------------------------------------ inside

    def _sync(self, now: float) -> None:
        """What was true until now has been true since the last time anything changed."""
        passed = now - self._since
        if passed <= 0:
            return
        self._since = now
        state = (self.executing, self.seats, self.waiting, self.waiting_seats)
        times = self.times
        held = times.get(state)
        if held is not None:
            times[state] = held + passed
        else:
            times[state] = passed
            if len(times) > _STATES and self.on_full is not None:
                self.on_full()
        if self._active:
            self.progress += min(self.seats + self.waiting_seats, self.limit) / self._active * passed

    def _start_without_queue(self, work: Work, now: float, about: Any) -> Request | str:
        if self.shape.queues == REJECT and not self._fits(work.seats):
            self.counts.rejected += 1
            return FULL_SEATS
        request = Request(work, None, now, self.progress, about)
        request.started = now
        self.queueless[request] = None
        self.executing += 1
        self.seats += work.seats
        self.counts.dispatched += 1
        self._note_demand()
        return request

    def _in_turn(self) -> bool:
        return self._burst < BURST or self.on_held is None

    def _hold(self) -> None:
        if not self._held and self.on_held is not None:
            self._held = True
            self.on_held()

    def _emptiest(self, hand: Sequence[int], first: int) -> _Queue:
        """Of the hand's queues the one with the least work waiting; among equals, not always the same one."""
        queues, size = self._queues, len(hand)
        best = queues[hand[first]]
        for step in range(1, size):
            queue = queues[hand[(first + step) % size]]
            if queue.waiting_work < best.waiting_work:
                best = queue
        return best

    def _fits(self, seats: int) -> bool:
        if self.seats + seats <= self.limit:
            return True
        return seats > self.limit and not self.executing  # wider than the level: alone, or never

    def _wake_queue(self, queue: _Queue) -> None:
        if not queue.executing and not queue.waiting:
            queue.next_dispatch = self.progress
            self._active += 1

    def _bound(self, queue: _Queue) -> None:
        """In the virtual world nothing begins before it arrived: a queue cannot save up what it did not use."""
        if queue.waiting:
            oldest = next(iter(queue.waiting))
            if queue.next_dispatch < oldest.progress:
                queue.next_dispatch = oldest.progress

    def _dispatch(self, now: float) -> None:
        """Let those run for whom there is room, in the order of their virtual finish."""
        while self.waiting and self.seats < self.limit:
            if not self._in_turn():
                self._hold()
                return
            queue = min(self._occupied, key=self._order)
            request = next(iter(queue.waiting))
            if not self._fits(request.work.seats):
                self.counts.unfitting += 1
                return
            self._last = queue.index
            self._take_out(request, queue)
            self._run(request, queue, now)
            self._bound(queue)
            if request.wake is not None:
                request.wake()

    def _order(self, queue: _Queue) -> tuple[float, int]:
        """Virtual finish of the queue's next request; among equals, whose turn it is."""
        oldest = next(iter(queue.waiting))
        return queue.next_dispatch + oldest.work.total, (queue.index - self._last - 1) % len(self._queues)

    def _take_out(self, request: Request, queue: _Queue) -> None:
        del queue.waiting[request]
        queue.waiting_work -= request.work.total
        if not queue.waiting:
            queue.waiting_work = 0.0
            del self._occupied[queue]
        self.waiting -= 1
        self.waiting_seats -= request.work.seats

    def _run(self, request: Request, queue: _Queue, now: float) -> None:
        work = request.work
        if work.final > self.limit > 0:  # the same work in fewer seats, for longer
            work = request.work = Work(work.initial, self.limit, work.extra * work.final / self.limit)
        request.started = now
        queue.executing += 1
        queue.seats += work.seats
        self.dispatched_at, self.latest_start = self.progress, queue.next_dispatch
        queue.next_dispatch += work.total
        self.executing += 1
        self.seats += work.seats
        self._burst += work.initial
        self.counts.dispatched += 1
        demand = self.seats + self.waiting_seats
        if demand > self.peak:
            self.peak = demand

    def _free(self, request: Request) -> None:
        seats, queue = request.work.seats, request.queue
        self.seats -= seats
        if queue is not None:
            queue.seats -= seats
            if len(self._queues) > self.shape.queues:
                self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        wanted, queues = max(self.shape.queues, 0), self._queues
        while len(queues) > wanted and not queues[-1].waiting and not queues[-1].executing:
            queues.pop()

    def _note_demand(self) -> None:
        self.peak = max(self.peak, self.seats + self.waiting_seats)
