"""What upstream resolvers said, for as long as they allow. Pure but for its clock; made by ``__main__``, used by ``forward``.

An answer whose time is over stays for when no resolver gives a new one (RFC 8767); clients are told that it ends at once.
"""

from collections import OrderedDict
from dataclasses import dataclass

from component.clock import Clock
from netproxy.dns.wire import NOERROR, NXDOMAIN, SERVFAIL, Encoded

LEAST, FAILED = 5, 5
"""Seconds that an answer, and a failure, are kept at least; CoreDNS' own."""
BYTES = 32 << 20
"""Of all answers together: some have 64 kB."""
_LATE = 10
"""Percent of its time that an answer has left when it is fetched anew; CoreDNS' own."""


@dataclass(slots=True)
class _Held:
    """``until`` ends the answer's time; until ``again`` nobody is asked although it is over."""

    answer: Encoded
    since: float
    until: float
    again: float = 0.0
    hits: int = 0
    renewed: bool = False


class Cache:
    """Answers by question, the least recently used goes first. Nothing is fresh for longer than ``most`` seconds."""

    def __init__(self, capacity: int, most: int, clock: Clock, *, stale: int = 0, popular: int = 0) -> None:
        """``stale``: seconds that an old answer may serve. ``popular``: hits for which one is fetched anew, 0 for never."""
        self._capacity, self._most, self._stale, self._popular, self._clock = capacity, most, stale, popular, clock
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._bytes = 0
        self.hits = {"success": 0, "denial": 0}
        self.misses = self.evictions = self.served_stale = self.prefetches = 0

    def __len__(self) -> int:
        return len(self._held)

    def entries(self) -> dict[str, int]:
        """How many answers of each kind are held."""
        denials = sum(1 for each in self._held.values() if kind_of(each.answer) == "denial")
        return {"success": len(self._held) - denials, "denial": denials}

    def clear(self) -> None:
        self._held.clear()
        self._bytes = 0

    def get(self, key: bytes) -> tuple[Encoded, int] | None:
        """The answer and its age in whole seconds."""
        held = self._held.get(key)
        now = self._clock.monotonic()
        if held is None or now >= max(held.until, held.again):
            self.misses += 1
            return None
        self.hits[kind_of(held.answer)] += 1
        self.served_stale += now >= held.until
        held.hits += 1
        self._held.move_to_end(key)
        return held.answer, int(now - held.since)

    def wants_new(self, key: bytes) -> bool:
        """Whether an answer that many ask for is about to end; says so once."""
        held = self._held.get(key)
        if not self._popular or held is None or held.renewed or held.hits < self._popular:
            return False
        left = held.until - self._clock.monotonic()
        if not 0 < left <= max((held.until - held.since) * _LATE / 100, 1):
            return False
        held.renewed = True
        self.prefetches += 1
        return True

    def put(self, key: bytes, answer: Encoded) -> None:
        seconds = self.seconds(answer)
        if seconds <= 0:
            return
        now = self._clock.monotonic()
        if (old := self._held.pop(key, None)) is not None:
            self._bytes -= len(old.answer.tail)
        self._held[key] = _Held(answer, now, now + seconds)
        self._bytes += len(answer.tail)
        while len(self._held) > self._capacity or self._bytes > BYTES:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= len(oldest.answer.tail)
            self.evictions += 1

    def failed(self, key: bytes, failure: Encoded) -> tuple[Encoded, int]:
        """What to say when no resolver gives an answer, and its age: what was last known, or ``failure``. Either for a while."""
        held, now = self._held.get(key), self._clock.monotonic()
        if held is None or held.answer.rcode == SERVFAIL or now >= held.until + self._stale:
            self.put(key, failure)
            return failure, 0
        held.again = min(now + min(FAILED, self._most), held.until + self._stale)
        self.served_stale += now >= held.until
        return held.answer, int(now - held.since)

    def seconds(self, answer: Encoded) -> int:
        """How long to keep an answer; codes that say nothing about the name are not kept."""
        if answer.rcode == SERVFAIL:
            return min(FAILED, self._most)
        if answer.rcode not in (NOERROR, NXDOMAIN) or not answer.marks:
            return 0
        return min(max(answer.least_ttl, LEAST), self._most)


def kind_of(answer: Encoded) -> str:
    """``success`` or ``denial``, as metrics tell them apart."""
    return "success" if answer.rcode == NOERROR and answer.counts[0] else "denial"
