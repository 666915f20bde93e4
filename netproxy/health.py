"""Whether the proxy keeps up, for ``/healthz``: pure state, told by ``proxier``, asked by ``__main__`` and ``healthcheck``."""

from collections.abc import Sequence
from datetime import datetime

from component.clock import Clock
from netproxy.trackers.services import Family


class ProxyHealth:
    """Unhealthy when a change of one family has waited longer than ``timeout``, or nothing was ever programmed; ``/healthz``
    also fails on a node that is going away, ``/livez`` does not: restarting the proxy would not mend that."""

    def __init__(self, clock: Clock, timeout: float, families: Sequence[Family] = ("IPv4",)) -> None:
        self._clock = clock
        self._timeout = timeout
        self._oldest: dict[Family, float] = dict.fromkeys(families, clock.monotonic())  # of those with something pending
        self.last_updated: datetime | None = None
        self.eligible = True

    def queued(self, family: Family) -> None:
        self._oldest.setdefault(family, self._clock.monotonic())

    def updated(self, family: Family) -> None:
        self._oldest.pop(family, None)
        self.last_updated = self._clock.now()

    @property
    def healthy(self) -> bool:
        now = self._clock.monotonic()
        return all(now - oldest < self._timeout for oldest in self._oldest.values())
