"""Whether the proxy keeps up, for ``/healthz``: pure state, told by ``proxier``, asked by ``__main__`` and ``healthcheck``."""

from datetime import datetime

from component.clock import Clock


class ProxyHealth:
    """Unhealthy when a change has waited longer than ``timeout``, or nothing was ever programmed; ``/healthz`` also fails on
    a node that is going away, ``/livez`` does not: restarting the proxy would not mend that."""

    def __init__(self, clock: Clock, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout
        self._oldest: float | None = clock.monotonic()
        self.last_updated: datetime | None = None
        self.eligible = True

    def queued(self) -> None:
        if self._oldest is None:
            self._oldest = self._clock.monotonic()

    def updated(self) -> None:
        self._oldest = None
        self.last_updated = self._clock.now()

    @property
    def healthy(self) -> bool:
        return self._oldest is None or self._clock.monotonic() - self._oldest < self._timeout
