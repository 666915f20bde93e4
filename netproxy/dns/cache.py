"""What upstream resolvers said, for as long as they allow. Pure but for its clock; made by ``__main__``, used by ``forward``."""

from collections import OrderedDict

from component.clock import Clock
from netproxy.dns.wire import NOERROR, NXDOMAIN, SERVFAIL, Encoded

LEAST, FAILED = 5, 5
"""Seconds that an answer, and a failure, are kept at least; CoreDNS' own."""


class Cache:
    """Answers by question, the least recently used goes first. Nothing is kept longer than ``most`` seconds."""

    def __init__(self, capacity: int, most: int, clock: Clock) -> None:
        self._capacity, self._most, self._clock = capacity, most, clock
        self._held: OrderedDict[bytes, tuple[Encoded, float, float]] = OrderedDict()
        self.hits = self.misses = self.evictions = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: bytes) -> tuple[Encoded, int] | None:
        """The answer and its age in whole seconds."""
        held = self._held.get(key)
        now = self._clock.monotonic()
        if held is None or now >= held[2]:
            self._held.pop(key, None)
            self.misses += 1
            return None
        self.hits += 1
        self._held.move_to_end(key)
        return held[0], int(now - held[1])

    def put(self, key: bytes, answer: Encoded) -> None:
        seconds = self.seconds(answer)
        if seconds <= 0:
            return
        now = self._clock.monotonic()
        self._held[key] = (answer, now, now + seconds)
        self._held.move_to_end(key)
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)
            self.evictions += 1

    def seconds(self, answer: Encoded) -> int:
        """How long to keep an answer; codes that say nothing about the name are not kept."""
        if answer.rcode == SERVFAIL:
            return min(FAILED, self._most)
        if answer.rcode not in (NOERROR, NXDOMAIN) or not answer.marks:
            return 0
        return min(max(answer.least_ttl, LEAST), self._most)
