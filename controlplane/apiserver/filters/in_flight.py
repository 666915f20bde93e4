"""A bound on how many requests are worked on at once: readers and writers apart, long-running requests not counted."""

from prometheus_client import Gauge

from apimachinery import errors
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.wire.call import Call

_READS = frozenset({"get", "list", "watch"})
_LONG_RUNNING = frozenset({"exec", "attach", "portforward", "proxy", "log"})
_EXEMPT_GROUP = "system:masters"


def is_long_running(call: Call) -> bool:
    """Watches and streams last as long as their client likes; they have neither a time limit nor a seat."""
    return call.info.verb == "watch" or (call.info.is_resource and call.info.subresource in _LONG_RUNNING)


def in_flight(max_reads: int, max_writes: int, gauge: Gauge) -> Filter:
    """Refuses with 429 what is over the bound; 0 means no bound. Administrators always get in, to see what is wrong.

    ``gauge`` shows how many there are.
    """
    used = {True: 0, False: 0}
    gauge.labels("readOnly").set_function(lambda: used[True])
    gauge.labels("mutating").set_function(lambda: used[False])
    bounds = {True: max_reads, False: max_writes}

    def step(call: Call) -> None:
        if is_long_running(call):
            return
        reading = call.info.verb in _READS
        bound = bounds[reading]
        if bound and used[reading] >= bound and _EXEMPT_GROUP not in call.user.groups:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        used[reading] += 1

        def leave(_: int) -> None:
            used[reading] -= 1

        call.finishers.append(leave)

    return step
