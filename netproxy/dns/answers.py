"""Answers for names of the cluster's domain: index > records > encoded message. Pure; kept by ``responder`` until they change.

Sections, TTLs and codes are CoreDNS': SOA with every negative answer, addresses of SRV targets beside them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dns.exception
import dns.message
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from netproxy.dns import wire
from netproxy.dns.facts import DNS_SERVICE
from netproxy.dns.records import Found, Labels, Records, Target, reverse_address

VERSION_TTL = 28800
_ADDRESSES = {wire.A: ".", wire.AAAA: ":"}


@dataclass(frozen=True, slots=True)
class External:
    """The name is an alias of ``target``, which somebody has to look up."""

    alias: dns.rrset.RRset
    target: dns.name.Name


class Answers:
    """Answers from one index for one domain."""

    def __init__(self, records: Records, domain: str, ttl: int) -> None:
        self._records, self._ttl = records, ttl
        self.zone: Labels = tuple(domain.lower().rstrip(".").split("."))
        self._origin = dns.name.from_text(f"{domain}.")
        self._serial = 0
        self._denials: dict[int, wire.Encoded] = {}

    def grow(self, serial: int) -> None:
        """Something changed."""
        if serial != self._serial:
            self._serial = serial
            self._denials.clear()

    def below(self, labels: Labels) -> Labels | None:
        """Labels below the domain, or None for a name outside."""
        cut = len(labels) - len(self.zone)
        return labels[:cut] if cut >= 0 and labels[cut:] == self.zone else None

    def inside(self, query: wire.Query, below: Labels) -> wire.Encoded | External:
        """The answer for a name of the domain, ``below`` it."""
        found = self._records.find(below)
        if found is None:
            return self._negative(wire.NXDOMAIN)
        if found.external:
            return self._external(query, found)
        if query.type in _ADDRESSES:
            texts = _addresses(found.targets, query.type)
            if not texts:
                return self._negative(wire.NOERROR)
            return wire.addresses(wire.AA | wire.RA, query.type, self._ttl, texts)
        message = _message(query)
        owner = message.question[0].name
        if query.type == wire.SRV:
            self._services(message, owner, found.targets)
        elif query.type == wire.TXT and found.text:
            message.answer.append(dns.rrset.from_text(owner, VERSION_TTL, "IN", "TXT", f'"{found.text}"'))
        elif not below:
            self._apex(message, owner, query.type)
        return wire.encode(message, wire.AA | wire.RA) if message.answer else self._negative(wire.NOERROR)

    def reverse(self, query: wire.Query, labels: Labels) -> wire.Encoded | None:
        """The answer for an address of the cluster; None for any other reverse name."""
        address = reverse_address(labels)
        names = self._records.pointers(address) if address else []
        if not names:
            return None
        message = _message(query)
        if query.type != wire.PTR:
            return wire.encode(message, wire.AA | wire.RA)
        self._add(message.answer, message.question[0].name, wire.PTR, [self._text(name) for name in names])
        return wire.encode(message, wire.AA | wire.RA)

    def chained(self, query: wire.Query, external: External, rest: dns.message.Message | None) -> wire.Encoded:
        """The alias with what was found behind it; None for a target that nobody could look up."""
        message = _message(query)
        message.answer.append(external.alias)
        if rest is None:
            return wire.encode(message, wire.AA | wire.RA | wire.SERVFAIL)
        message.answer.extend(rest.answer)
        # by the SOA a client knows for how long the end of the chain has no such records
        message.authority.extend(each for each in rest.authority if each.rdtype == dns.rdatatype.SOA)
        return wire.encode(message, wire.AA | wire.RA | int(rest.rcode()))

    def _external(self, query: wire.Query, found: Found) -> wire.Encoded | External:
        message = _message(query)
        try:
            target = dns.name.from_text(f"{found.external}.")
        except dns.exception.DNSException:
            return self._negative(wire.NXDOMAIN)
        alias = dns.rrset.from_text(message.question[0].name, self._ttl, "IN", "CNAME", target.to_text())
        if query.type in _ADDRESSES:
            return External(alias, target)
        if query.type == wire.CNAME:
            message.answer.append(alias)
            return wire.encode(message, wire.AA | wire.RA)
        return self._negative(wire.NOERROR)

    def _services(self, message: dns.message.Message, owner: dns.name.Name, targets: Sequence[Target]) -> None:
        pointed = [target for target in targets if target.port]
        hosts = list(dict.fromkeys(target.host for target in pointed))
        weight = max(100 // len(pointed), 1) if pointed else 0
        texts = dict.fromkeys(f"0 {weight} {target.port} {self._text(target.host)}" for target in pointed)
        self._add(message.answer, owner, wire.SRV, texts)
        by_host: dict[Labels, list[Target]] = {host: [] for host in hosts}
        for target in pointed:
            by_host[target.host].append(target)
        for host, those in by_host.items():
            for kind in _ADDRESSES:
                self._add(message.additional, self._name(host), kind, _addresses(those, kind))

    def _apex(self, message: dns.message.Message, owner: dns.name.Name, kind: int) -> None:
        if kind == wire.SOA:
            message.answer.append(self._soa())
        elif kind == wire.NS:
            namespace, name = DNS_SERVICE
            service = (name, namespace, "svc")
            found = self._records.find(service)
            host, targets = (service, found.targets) if found else (("ns", "dns"), ())
            self._add(message.answer, owner, wire.NS, [self._text(host)])
            for each in _ADDRESSES:
                self._add(message.additional, self._name(host), each, _addresses(targets, each))

    def _negative(self, rcode: int) -> wire.Encoded:
        made = self._denials.get(rcode)
        if made is None:
            made = self._denials[rcode] = wire.denial(wire.AA | wire.RA | rcode, self._soa())
        return made

    def _soa(self) -> dns.rrset.RRset:
        zone = self._origin.to_text()
        text = f"ns.dns.{zone} hostmaster.{zone} {self._serial} 7200 1800 86400 {self._ttl}"
        return dns.rrset.from_text(self._origin, self._ttl, "IN", "SOA", text)

    def _add(self, section: list[dns.rrset.RRset], owner: dns.name.Name, kind: int, texts: Iterable[str]) -> None:
        values = list(texts)
        if values:
            section.append(
                dns.rrset.from_text(owner, self._ttl, "IN", dns.rdatatype.to_text(dns.rdatatype.RdataType(kind)), *values)
            )

    def _name(self, labels: Labels) -> dns.name.Name:
        return dns.name.Name([*(label.encode("latin-1") for label in labels), *self._origin.labels])

    def _text(self, labels: Labels) -> str:
        return self._name(labels).to_text()


def _message(query: wire.Query) -> dns.message.QueryMessage:
    message = dns.message.QueryMessage(id=0)
    name = wire.name_of(query.key)
    message.question.append(dns.rrset.RRset(name, dns.rdataclass.IN, dns.rdatatype.RdataType.make(query.type)))
    return message


def _addresses(targets: Iterable[Target], kind: int) -> list[str]:
    mark = _ADDRESSES[kind]
    return list(dict.fromkeys(target.address for target in targets if mark in target.address))
