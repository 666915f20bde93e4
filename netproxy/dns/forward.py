"""Questions about names outside the cluster, asked of the node's own resolvers. Made by ``__main__``, used by ``responder``.

Equal questions that wait are asked once. Resolvers are asked in their order; one that does not answer goes to the end, and
while none answers, one question at a time finds out whether one does again: all others fail at once.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

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
_FAILED = (wire.SERVFAIL, wire.REFUSED)
ROOT = b"\0"
"""The domain of every name."""
Aged = tuple[wire.Encoded, int]
"""An answer and its age in seconds."""


class BusyError(Exception):
    """As many questions wait as may."""


class _Resolver:
    """One resolver and how it has done lately. ``tried`` is higher for one that was asked later."""

    __slots__ = ("address", "failures", "looped", "tried", "trying")

    def __init__(self, address: Address) -> None:
        self.address, self.failures, self.tried, self.trying, self.looped = address, 0, 0, 0, False

    @property
    def down(self) -> bool:
        return self.failures >= _FAILURES


Groups = dict[bytes, list[_Resolver]]
"""Resolvers by domain."""


class Forwarder:
    """Asks the resolvers it was last given: those of a stub domain for names in it, else the node's."""

    def __init__(self, cache: Cache, most: int, concurrent: int, clock: Clock, metrics: DNSMetrics) -> None:
        """``most`` is the longest TTL in seconds that clients are told."""
        self.cache = cache
        self._most, self._concurrent = most, concurrent
        self._clock, self._metrics = clock, metrics
        self._groups: Groups = {ROOT: []}
        self._attempts = 0
        self._waiting: dict[bytes, asyncio.Task[Aged]] = {}

    @property
    def addresses(self) -> list[tuple[bytes, Address]]:
        """Every resolver with the domain for which it is asked."""
        return [(domain, each.address) for domain, group in self._groups.items() for each in group]

    def use(self, addresses: Iterable[Address], stubs: Mapping[bytes, Iterable[Address]] | None = None) -> None:
        """Ask these from now on; what is known of those that stay is kept.

        ``stubs`` are resolvers by domain, as its name stands in a lower-case question. Answers of before a change of domains
        are forgotten.
        """
        wanted = {ROOT: addresses, **(stubs or {})}
        before = self._groups
        self._groups = {domain: _made(before.get(domain, ()), each) for domain, each in wanted.items()}
        if {domain: _asked(group) for domain, group in before.items() if domain != ROOT} != {
            domain: _asked(group) for domain, group in self._groups.items() if domain != ROOT
        }:
            self.cache.clear()

    def exclude(self, domain: bytes, address: Address) -> None:
        """Ask this one no more for a domain: its answers come from ourselves."""
        for each in self._groups.get(domain, ()):
            if each.address == address and not each.looped:
                each.looped = True
                _log.error("Resolver asks us in turn, it is left out", resolver=str(address))

    def include(self, domain: bytes, address: Address) -> None:
        """Its answers are its own again."""
        for each in self._groups.get(domain, ()):
            if each.address == address and each.looped:
                each.looped = False
                _log.info("Resolver asks us no more, it is asked again", resolver=str(address))

    def cached(self, query: wire.Query) -> Aged | None:
        """An answer at hand, and its age in seconds. One that many ask for is fetched anew before it ends."""
        key = _key(query)
        held = self.cache.get(key)
        if held is not None and self.cache.wants_new(key) and len(self._waiting) < self._concurrent:
            self._start(query, key)
        return held

    async def resolve(self, query: wire.Query) -> Aged:
        """The answer and its age, SERVFAIL when no resolver gives one. Raises BusyError."""
        key = _key(query)
        task = self._waiting.get(key)
        if task is None:
            if len(self._waiting) >= self._concurrent:
                self._metrics.rejected.inc()
                raise BusyError
            task = self._start(query, key)
        # one client that goes away must not take the answer from the others
        return await asyncio.shield(task)

    def _start(self, query: wire.Query, key: bytes) -> asyncio.Task[Aged]:
        if key in self._waiting:
            return self._waiting[key]
        task = self._waiting[key] = asyncio.create_task(self._ask(query, key), name="dns-forward")
        task.add_done_callback(lambda _: self._waiting.pop(key, None))
        return task

    async def _ask(self, query: wire.Query, key: bytes) -> Aged:
        deadline = self._clock.monotonic() + TOTAL_SECONDS
        last = wire.Encoded(wire.RA | wire.SERVFAIL)
        group = self._group(query.key)
        for resolver in _order(group):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            answer = await self._attempt(resolver, query, min(ATTEMPT_SECONDS, left))
            if answer is None:
                continue
            last = answer
            if answer.rcode not in _FAILED:
                break
        if group and all(each.down for each in group):
            self._metrics.broken.inc()
        if last.rcode in _FAILED:
            return self.cache.failed(key, last)
        if group is self._group(query.key):
            # else the name belongs to others now
            self.cache.put(key, last)
        return last, 0

    def _group(self, key: bytes) -> list[_Resolver]:
        """Who is asked for a question: the resolvers of the longest domain that the name is in."""
        position = 0
        while len(self._groups) > 1 and (length := key[position]):
            if (found := self._groups.get(key[position:-4])) is not None:
                return found
            position += length + 1
        return self._groups[ROOT]

    async def _attempt(self, resolver: _Resolver, query: wire.Query, seconds: float) -> wire.Encoded | None:
        began = self._clock.monotonic()
        to = str(resolver.address)
        self._attempts += 1
        resolver.tried = self._attempts
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


def _made(known: Iterable[_Resolver], addresses: Iterable[Address]) -> list[_Resolver]:
    held = {each.address: each for each in known}
    return [held.get(address) or _Resolver(address) for address in dict.fromkeys(addresses)]


def _asked(group: Iterable[_Resolver]) -> list[Address]:
    return [each.address for each in group]


def _order(group: Iterable[_Resolver]) -> list[_Resolver]:
    usable = [each for each in group if not each.looped]
    up = [each for each in usable if not each.down]
    # each in its turn: else the one that answers again is never found behind one that does not
    idle = sorted((each for each in usable if each.down and not each.trying), key=lambda each: each.tried)
    return up + (idle if up else idle[:1])


Probes = dict[bytes, tuple[bytes, Address]]
"""Questions that nobody else asks, with the domain and the resolver that they try."""


async def find_loops(forwarder: Forwarder, probes: Probes, make: Callable[[bytes], wire.Query]) -> None:
    """Ask each resolver a question that nobody else asks: if it arrives at our own server, the resolver asks us.

    ``probes`` is shared with ``responder``, which takes a question from it that has arrived; ``make`` makes one below a domain.
    """
    for domain, address in forwarder.addresses:
        query = make(domain)
        probes[query.key] = (domain, address)
        try:
            await upstream.exchange(address, query, ATTEMPT_SECONDS)
            if query.key in probes:
                forwarder.include(domain, address)
        except UpstreamError:
            continue
        finally:
            probes.pop(query.key, None)
