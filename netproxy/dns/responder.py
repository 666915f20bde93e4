"""The road of one query: parse > answer at hand, or made of the index, or forwarded > reply. Called by ``server``.

What the cluster's names answer is kept encoded until something changes that the answer was made of, so most queries cost one
dictionary lookup. Everything that needs no resolver is answered without a task.
"""

import ipaddress
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

import dns.message
import dns.name

from component import logs
from netproxy.dns import wire
from netproxy.dns.answers import Answers, External
from netproxy.dns.forward import BusyError, Forwarder, Probes
from netproxy.dns.metrics import DNSMetrics
from netproxy.dns.records import Labels, Owner, Records, owner_of, reverse_address

_log = logs.get(__name__)
_KEPT = 50_000
"""Encoded answers; where more are asked for, all are made anew."""
_SOURCES = 10_000
_DEPTH = 8
"""Aliases of the cluster that may follow each other."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Later = Coroutine[None, None, bytes]


@dataclass(frozen=True, slots=True)
class Door:
    """How a query came: its protocol, where from, and how much may be answered at most."""

    protocol: str
    source: str


class Responder:
    """Answers queries from one index and one forwarder. ``ready`` is set once the index is complete."""

    def __init__(
        self, records: Records, answers: Answers, forwarder: Forwarder, metrics: DNSMetrics, allowed: Sequence[Network] = ()
    ) -> None:
        self._records, self._answers, self._forwarder, self._metrics = records, answers, forwarder, metrics
        self._allowed = allowed
        self._sources: dict[str, bool] = {}
        self._fellows: frozenset[str] = frozenset()
        self._kept: dict[bytes, wire.Encoded] = {}
        self._dependents: dict[Owner, list[bytes]] = {}
        self._zone = ".".join(answers.zone) + "."
        self.ready = False
        self.probes: Probes = {}
        """Questions by which we look for a resolver that asks us."""

    def changed(self, owners: Sequence[Owner]) -> None:
        """Forget the answers that were made of these."""
        if owners:
            self._answers.grow(int(time.time()))
        for owner in owners:
            for key in self._dependents.pop(owner, ()):
                self._kept.pop(key, None)

    def forget(self) -> None:
        """Forget every answer: something changed that many may be made of."""
        self._answers.grow(int(time.time()))
        self._kept.clear()
        self._dependents.clear()

    def respond(self, data: bytes, door: Door) -> bytes | Later:
        """The reply, empty for none, or what will give it."""
        began = time.perf_counter()
        try:
            query = wire.parse(data)
        except wire.Unanswerable as refusal:
            return refusal.reply
        answer = self._kept.get(query.key)
        if answer is None:
            return self._look(query, door, began)
        if self._allowed and not self.allows(door.source):
            return wire.failure(query, wire.REFUSED)
        return self._finish(query, answer, door, self._zone, began)

    def admit(self, fellows: frozenset[str]) -> None:
        """Addresses of the nodes' servers: pods of a node's own network ask from there, while that one cannot answer."""
        if fellows != self._fellows:
            self._fellows = fellows
            self._sources.clear()

    def allows(self, source: str) -> bool:
        """Whether an address may ask."""
        known = self._sources.get(source)
        if known is None:
            address = ipaddress.ip_address(source.partition("%")[0])
            inside = any(address.version == each.version and address in each for each in self._allowed)
            known = inside or str(address) in self._fellows
            if len(self._sources) >= _SOURCES:
                self._sources.clear()
            self._sources[source] = known
        return known

    def _look(self, query: wire.Query, door: Door, began: float) -> bytes | Later:
        if self._allowed and not self.allows(door.source):
            return wire.failure(query, wire.REFUSED)
        if query.key[-2:] != b"\0\1" or query.type in (wire.AXFR, wire.IXFR):
            return wire.failure(query, wire.REFUSED)
        labels = wire.labels_of(query.key)
        local = self._local(query, labels)
        if isinstance(local, wire.Encoded):
            return self._finish(query, local, door, self._zone, began)
        if isinstance(local, External):
            return self._follow(query, local, door, began)
        if query.type == wire.HINFO and (tried := self.probes.pop(query.key, None)) is not None:
            self._forwarder.exclude(*tried)
            return wire.failure(query, wire.REFUSED)
        if (held := self._forwarder.cached(query)) is not None:
            return self._finish(query, held[0], door, ".", began, held[1])
        return self._forward(query, door, began)

    def _local(self, query: wire.Query, labels: Labels) -> wire.Encoded | External | None:
        """What the cluster says of a name; None for a name that is not its own."""
        below = self._answers.below(labels)
        if below is None:
            if labels[-1:] != ("arpa",) or not self.ready or (answer := self._answers.reverse(query, labels)) is None:
                return None
            if answer.counts[0]:
                self._keep(query, answer, (reverse_address(labels), ""))
            return answer
        if not self.ready:
            return wire.Encoded(wire.RA | wire.SERVFAIL)
        made = self._answers.inside(query, below)
        # denials and pods' addresses are made at once, and whoever asks for names at random must not push the others out
        if isinstance(made, wire.Encoded) and made.counts[0] and below[-1:] != ("pod",):
            self._keep(query, made, owner_of(below))
        return made

    def _keep(self, query: wire.Query, answer: wire.Encoded, owner: Owner) -> None:
        if len(self._kept) >= _KEPT:
            self.forget()
        self._kept[query.key] = answer
        self._dependents.setdefault(owner, []).append(query.key)

    async def _forward(self, query: wire.Query, door: Door, began: float) -> bytes:
        try:
            answer, age = await self._forwarder.resolve(query)
        except BusyError:
            answer, age = wire.Encoded(wire.RA | wire.REFUSED), 0
        return self._finish(query, answer, door, ".", began, age)

    async def _follow(self, query: wire.Query, external: External, door: Door, began: float) -> bytes:
        """Look up what an ExternalName Service stands for; the last name's code counts."""
        rest = await self._target(external.target, query, _DEPTH)
        return self._finish(query, self._answers.chained(query, external, rest), door, self._zone, began)

    async def _target(self, name: dns.name.Name, asked: wire.Query, depth: int) -> dns.message.Message | None:
        key = (name.to_wire() or b"") + asked.question[-4:]
        query = asked._replace(question=key, key=key[:-4].lower() + key[-4:], edns=False)
        answer: wire.Encoded | External | None = self._kept.get(query.key)
        if answer is None:
            answer = self._local(query, wire.labels_of(query.key))
        if isinstance(answer, External):
            if depth == 0:
                return None
            rest = await self._target(answer.target, asked, depth - 1)
            answer = self._answers.chained(query, answer, rest)
        age = 0
        if answer is None and (held := self._forwarder.cached(query)) is not None:
            answer, age = held
        if answer is None:
            try:
                answer, age = await self._forwarder.resolve(query)
            except BusyError:
                return None
        return None if answer.rcode == wire.SERVFAIL else wire.message_of(query, answer, age)

    def _finish(self, query: wire.Query, answer: wire.Encoded, door: Door, zone: str, began: float, age: int = 0) -> bytes:
        reply = wire.reply(query, answer, query.size if door.protocol == "udp" else wire.LARGEST, age)
        family = 2 if ":" in door.source else 1
        self._metrics.answered(door.protocol, family, zone, query, answer.rcode, len(reply), time.perf_counter() - began)
        return reply
