"""What API priority and fairness tells about itself, by upstream's metric names. Read when somebody scrapes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from controlplane.apiserver.flowcontrol.control import FlowControl
from controlplane.apiserver.flowcontrol.flow import FlowStats, Level, Samples
from controlplane.apiserver.flowcontrol.utilization import TimeHistogram, Utilization

_PREFIX = "apiserver_flowcontrol_"
_FLOW = ("priority_level", "flow_schema")
_NANO = 1_000_000_000  # upstream counts an observation each nanosecond

_LEVEL_GAUGES: tuple[tuple[str, str, Callable[[Level], float]], ...] = (
    (
        "nominal_limit_seats",
        "Nominal number of execution seats configured for each priority level",
        lambda one: one.limits.nominal,
    ),
    (
        "lower_limit_seats",
        "Configured lower bound on number of execution seats available to each priority level",
        lambda one: one.limits.lower,
    ),
    (
        "upper_limit_seats",
        "Configured upper bound on number of execution seats available to each priority level",
        lambda one: one.limits.upper,
    ),
    (
        "current_limit_seats",
        "current derived number of execution seats available to each priority level",
        lambda one: one.current,
    ),
    ("demand_seats_high_watermark", "High watermark, over last adjustment period, of demand_seats", lambda one: one.demand.peak),
    (
        "demand_seats_average",
        "Time-weighted average, over last adjustment period, of demand_seats",
        lambda one: one.demand.average,
    ),
    (
        "demand_seats_stdev",
        "Time-weighted standard deviation, over last adjustment period, of demand_seats",
        lambda one: one.demand.deviation,
    ),
    ("demand_seats_smoothed", "Smoothed seat demands", lambda one: one.demand.smoothed),
    ("target_seats", "Seat allocation targets", lambda one: one.target),
    ("current_r", "R(time of last change)", lambda one: one.queues.progress),
    ("dispatch_r", "R(time of last dispatch)", lambda one: one.queues.dispatched_at),
    ("latest_s", "S(most recently dispatched request)", lambda one: one.queues.latest_start),
)
_FLOW_GAUGES: tuple[tuple[str, str, Callable[[FlowStats], float]], ...] = (
    (
        "current_inqueue_requests",
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        lambda one: one.waiting,
    ),
    (
        "current_inqueue_seats",
        "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
        lambda one: one.waiting_seats,
    ),
    (
        "current_executing_requests",
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness "
        "subsystem",
        lambda one: one.executing,
    ),
    (
        "current_executing_seats",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) "
        "requests in the API Priority and Fairness subsystem",
        lambda one: one.seats,
    ),
)
_FLOW_SAMPLES: tuple[tuple[str, str, Callable[[FlowStats], Samples]], ...] = (
    (
        "request_queue_length_after_enqueue",
        "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        lambda one: one.lengths,
    ),
    ("watch_count_samples", "count of watchers for mutating requests in API Priority and Fairness", lambda one: one.watches),
    (
        "work_estimated_seats",
        "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
        lambda one: one.widths,
    ),
)
_TIMES: tuple[tuple[str, str, str, Callable[[Utilization], TimeHistogram]], ...] = (
    (
        "priority_level_seat_utilization",
        "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial "
        "stage for WATCHes)",
        "executing",
        lambda one: one.executing_seats,
    ),
    (
        "priority_level_request_utilization",
        "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in "
        "any stage of execution (but only initial stage for WATCHes)",
        "executing",
        lambda one: one.executing_requests,
    ),
    ("priority_level_request_utilization", "", "waiting", lambda one: one.waiting_requests),
    (
        "demand_seats",
        "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (current seat "
        "limit for that level if that is not zero otherwise max(1, round(server seat limit/10.0)))",
        "",
        lambda one: one.demand,
    ),
)


class FlowMetrics(Collector):
    def __init__(self, control: FlowControl) -> None:
        self._control = control

    def collect(self) -> Iterator[Metric]:
        yield from self._levels()
        yield from self._flows()
        yield from self._histograms()
        yield from self._times()

    def _levels(self) -> Iterator[Metric]:
        levels = self._control.levels
        for name, text, read in _LEVEL_GAUGES:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=("priority_level",))
            for level, held in levels.items():
                gauge.add_metric((level,), read(held))
            yield gauge
        yield from self._next_starts()
        text = "Fair fraction of server's concurrency to allocate to each priority level that can use it"
        yield GaugeMetricFamily(_PREFIX + "seat_fair_frac", text, value=self._control.fair)

    def _next_starts(self) -> Iterator[Metric]:
        texts = (
            ("next_s_bounds", "min and max, over queues, of S(oldest waiting request in queue)"),
            (
                "next_discounted_s_bounds",
                "min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress",
            ),
        )
        for place, (name, text) in enumerate(texts):
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=("priority_level", "bound"))
            for level, held in self._control.levels.items():
                if starts := [pair[place] for pair in held.queues.next_starts()]:
                    gauge.add_metric((level, "min"), min(starts))
                    gauge.add_metric((level, "max"), max(starts))
            yield gauge

    def _flows(self) -> Iterator[Metric]:
        stats = self._control.stats
        text = "Number of requests executed by API Priority and Fairness subsystem"
        dispatched = CounterMetricFamily(_PREFIX + "dispatched_requests", text, labels=_FLOW)
        text = "Number of requests rejected by API Priority and Fairness subsystem"
        rejected = CounterMetricFamily(_PREFIX + "rejected_requests", text, labels=(*_FLOW, "reason"))
        for key, held in stats.items():
            dispatched.add_metric(key, held.dispatched)
            for reason, count in held.rejected.items():
                rejected.add_metric((*key, reason), count)
        yield from (dispatched, rejected)
        text = "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats"
        unfitting = CounterMetricFamily(_PREFIX + "request_dispatch_no_accommodation", text, labels=("priority_level",))
        for level, one in self._control.levels.items():
            unfitting.add_metric((level,), one.queues.counts.unfitting)
        yield unfitting
        for name, text, read in _FLOW_GAUGES:
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=_FLOW)
            for key, held in stats.items():
                gauge.add_metric(key, read(held))
            yield gauge

    def _histograms(self) -> Iterator[Metric]:
        stats = self._control.stats
        for name, text, read in _FLOW_SAMPLES:
            family = HistogramMetricFamily(_PREFIX + name, text, labels=_FLOW)
            for key, held in stats.items():
                _add(family, key, read(held))
            yield family
        text = "Length of time a request spent waiting in its queue"
        waited = HistogramMetricFamily(_PREFIX + "request_wait_duration_seconds", text, labels=(*_FLOW, "execute"))
        text = (
            "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and "
            "Fairness subsystem"
        )
        executed = HistogramMetricFamily(_PREFIX + "request_execution_seconds", text, labels=(*_FLOW, "type"))
        for key, held in stats.items():
            _add(waited, (*key, "true"), held.waited)
            _add(waited, (*key, "false"), held.waited_in_vain)
            for kind, samples in held.executed.items():
                _add(executed, (*key, kind), samples)
        yield from (waited, executed)

    def _times(self) -> Iterator[Metric]:
        now = self._control.now()
        measured = self._control.utilization
        for one in measured.values():
            one.fold(now)
        families: dict[str, HistogramMetricFamily] = {}
        for name, text, phase, read in _TIMES:
            family = families.get(name)
            if family is None:
                labels = ("priority_level", "phase") if phase else ("priority_level",)
                family = families[name] = HistogramMetricFamily(_PREFIX + name, text, labels=labels)
            for level, one in measured.items():
                held = read(one)
                counts = [round(seconds * _NANO) for seconds in held.seconds]
                rows = _rows(held.bounds, counts)
                family.add_metric((level, phase) if phase else (level,), rows, held.total * _NANO)
        yield from families.values()


def _add(family: HistogramMetricFamily, labels: Sequence[str], samples: Samples) -> None:
    family.add_metric(labels, _rows(samples.bounds, samples.counts), samples.total)


def _rows(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]
