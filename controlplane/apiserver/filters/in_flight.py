"""A bound on how many requests are worked on at once, for servers without priority and fairness.

Readers and writers are counted apart, long-running requests not at all.
"""

from controlplane.apiserver.filters.in_flight_counts import InFlight
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.filters.too_many import TooManyRequests
from controlplane.apiserver.wire.call import Call

READS = frozenset({"get", "list", "watch"})
_EXEMPT_GROUP = "system:masters"


def in_flight(max_reads: int, max_writes: int, counts: InFlight) -> Filter:
    """Refuses with 429 what is over the bound; 0 means no bound. Administrators always get in, to see what is wrong."""

    def step(call: Call) -> None:
        if is_long_running(call):
            return
        reading = call.info.verb in READS
        bound, used = (max_reads, counts.reading) if reading else (max_writes, counts.writing)
        if bound and used >= bound and _EXEMPT_GROUP not in call.user.groups:
            raise TooManyRequests
        counts.enter(reading)
        call.finishers.append(lambda _: counts.leave(reading))

    return step
