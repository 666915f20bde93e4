"""Questions about names outside the cluster, asked of the node's own resolvers. Made by ``__main__``, used by ``responder``.

Equal questions that wait are asked once. Resolvers are asked in their order; one that does not answer goes to the end, and
while none answers, one question at a time finds out whether one does again: all others fail at once.
"""

import asyncio
from collections.abc import Callable, Iterable

from component import logs
from component.clock import Clock
from netproxy.dns import upstream, wire
from netproxy.dns.cache import Cache
from netproxy.dns.metrics import DNSMetrics
from netproxy.dns.upstream import Address, UpstreamError

_log = logs.get(__name__)
ATTEMPT_SECONDS = 2.0
"""Of one transport of one resolver; CoreDNS' own."""
TOTAL_SECONDS = 5.0
_FAILURES = 2
"""In a row, after which a resolver counts as down."""


class BusyError(Exception):
    """As many questions wait as may."""


class _Resolver:
    """One resolver and how it has done lately."""

    __slots__ = ("address", "failures", "looped", "trying")

    def __init__(self, address: Address) -> None:
        self.address, self.failures, self.trying, self.looped = address, 0, 0, False

    @property
    def down(self) -> bool:
        return self.failures >= _FAILURES


class Forwarder:
    """Asks the resolvers it was last given."""

    def __init__(self, cache: Cache, most: int, concurrent: int, clock: Clock, metrics: DNSMetrics) -> None:
        """``most`` is the longest TTL in seconds that clients are told."""
        self.cache = cache
        self._most, self._concurrent = most, concurrent
        self._clock, self._metrics = clock, metrics
        self._resolvers: list[_Resolver] = []
        self._waiting: dict[bytes, asyncio.Task[wire.Encoded]] = {}

    @property
    def addresses(self) -> list[Address]:
        return [each.address for each in self._resolvers]

    def use(self, addresses: Iterable[Address]) -> None:
        """Ask these from now on; what is known of those that stay is kept."""
        known = {each.address: each for each in self._resolvers}
        self._resolvers = [known.get(address) or _Resolver(address) for address in dict.fromkeys(addresses)]

    def exclude(self, address: Address) -> None:
        """Ask this one no more: its answers come from ourselves."""
        for each in self._resolvers:
            if each.address == address and not each.looped:
                each.looped = True
                _log.error("Resolver asks us in turn, it is left out", resolver=str(address))

    def cached(self, query: wire.Query) -> tuple[wire.Encoded, int] | None:
        """An answer at hand, and its age in seconds."""
        return self.cache.get(_key(query))

    async def resolve(self, query: wire.Query) -> wire.Encoded:
        """The answer, SERVFAIL when no resolver gives one. Raises BusyError."""
        key = _key(query)
        task = self._waiting.get(key)
        if task is None:
            if len(self._waiting) >= self._concurrent:
                self._metrics.rejected.inc()
                raise BusyError
            task = asyncio.create_task(self._ask(query, key), name="dns-forward")
            self._waiting[key] = task
            task.add_done_callback(lambda _: self._waiting.pop(key, None))
        # one client that goes away must not take the answer from the others
        return await asyncio.shield(task)

    async def _ask(self, query: wire.Query, key: bytes) -> wire.Encoded:
        deadline = self._clock.monotonic() + TOTAL_SECONDS
        last: wire.Encoded | None = None
        for resolver in self._order():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            answer = await self._attempt(resolver, query, min(ATTEMPT_SECONDS, left))
            if answer is None:
                continue
            last = answer
            if answer.rcode not in (wire.SERVFAIL, wire.REFUSED):
                break
        if last is None:
            return wire.Encoded(wire.RA | wire.SERVFAIL)
        self.cache.put(key, last)
        return last

    def _order(self) -> list[_Resolver]:
        usable = [each for each in self._resolvers if not each.looped]
        up = [each for each in usable if not each.down]
        idle = [each for each in usable if each.down and not each.trying]
        return up + (idle if up else idle[:1])

    async def _attempt(self, resolver: _Resolver, query: wire.Query, seconds: float) -> wire.Encoded | None:
        began = self._clock.monotonic()
        to = str(resolver.address)
        resolver.trying += 1
        try:
            message = await upstream.exchange(resolver.address, query, seconds)
        except UpstreamError as error:
            resolver.failures += 1
            self._metrics.upstream_failures.labels("forward", to).inc()
            if resolver.failures == _FAILURES:
                _log.warning("Resolver does not answer", resolver=to, err=error)
            return None
        finally:
            resolver.trying -= 1
        if resolver.down:
            _log.info("Resolver answers again", resolver=to)
        resolver.failures = 0
        rcode = int(message.rcode())
        name = wire.rcode_text(rcode)
        self._metrics.upstream_seconds.labels("forward", to, name).observe(self._clock.monotonic() - began)
        if rcode > 15:
            return wire.Encoded(wire.RA | wire.SERVFAIL)
        verified = int(message.flags) & wire.AD
        message.use_edns(False)
        return wire.encode(message, wire.RA | verified | rcode, most=self._most)


def _key(query: wire.Query) -> bytes:
    """Answers differ by the question, and by whether signatures are wanted or checked."""
    return query.key + (b"d" if query.do else b"") + (b"c" if query.flags & wire.CD else b"")


async def find_loops(forwarder: Forwarder, probes: dict[bytes, Address], make: Callable[[], wire.Query]) -> None:
    """Ask each resolver a question that nobody else asks: if it arrives at our own server, the resolver asks us.

    ``probes`` is shared with ``responder``, which looks questions up in it.
    """
    for address in forwarder.addresses:
        query = make()
        probes[query.key] = address
        try:
            await upstream.exchange(address, query, ATTEMPT_SECONDS)
        except UpstreamError:
            continue
        finally:
            del probes[query.key]
