"""The index behind every name of the cluster's domain. Pure: informers' handlers write it, ``answers`` asks it.

Names are tuples of lower-case labels below the cluster's domain, such as ``("web", "default", "svc")``. A name costs a few
dictionary lookups, however many Services there are. Each change tells which answers it may have changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from netproxy.dns.facts import DNS_SERVICE, Endpoint, Port, Service, Slice, canonical

Key = TypeVar("Key")
Value = TypeVar("Value")
Labels = tuple[str, ...]
Owner = tuple[str, str]
"""Namespace and name of the Service that an answer was made from; ``(address, "")`` for a reverse name."""

VERSION = "1.1.0"
"""Of the DNS schema; text of ``dns-version.<zone>``."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where one record leads: ``host`` has labels below the zone; ``port`` is 0 where there is none."""

    host: Labels
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a name that exists. With nothing in it the name has no records, but names below it do."""

    targets: tuple[Target, ...] = ()
    external: str = ""
    text: str = ""


EMPTY = Found()


@dataclass(slots=True)
class _Entry:
    """One Service and its slices by name; either may come first."""

    service: Service | None = None
    slices: dict[str, Slice] = field(default_factory=dict)
    hosts: dict[str, dict[tuple[str, Port], None]] | None = None

    def by_host(self) -> dict[str, dict[tuple[str, Port], None]]:
        """Addresses with ports by host name; made when first asked after a change."""
        if self.hosts is None:
            self.hosts = {}
            for piece in self.slices.values():
                for endpoint in piece.endpoints:
                    known = self.hosts.setdefault(endpoint.hostname, {})
                    known.update(dict.fromkeys((endpoint.address, port) for port in piece.ports))
        return self.hosts


class Records:
    """Names of one cluster."""

    def __init__(self) -> None:
        self._entries: dict[Owner, _Entry] = {}
        self._namespaces: set[str] = set()
        # addresses to names; a dict serves as a set that keeps its order
        self._service_names: dict[str, dict[Owner, None]] = {}
        self._endpoint_names: dict[str, dict[Labels, int]] = {}

    def __len__(self) -> int:
        """Services that are known."""
        return len(self._entries)

    def set_service(self, owner: Owner, service: Service | None) -> list[Owner]:
        """Take in a Service, or None for one that is gone; returns the owners of answers that may have changed."""
        entry = self._entries.setdefault(owner, _Entry())
        before, entry.service = entry.service, service
        if before == service:
            self._forget_empty(owner, entry)
            return []
        old = before.addresses if before else ()
        new = service.addresses if service else ()
        for address in old:
            _drop(self._service_names, address, owner)
        for address in new:
            self._service_names.setdefault(address, {})[owner] = None
        self._forget_empty(owner, entry)
        return [owner, *((address, "") for address in {*old, *new})]

    def set_slice(self, namespace: str, name: str, piece: Slice | None, service: str) -> list[Owner]:
        """Take in a slice of ``service``, or None for one that is gone (or became another Service's)."""
        owner = (namespace, service)
        entry = self._entries.setdefault(owner, _Entry())
        before = entry.slices.pop(name, None)
        if piece is not None:
            entry.slices[name] = piece
        if before == piece:
            self._forget_empty(owner, entry)
            return []
        entry.hosts = None
        touched = {owner: None}
        for endpoint in before.endpoints if before else ():
            self._count(endpoint, owner, -1)
            touched[endpoint.address, ""] = None
        for endpoint in piece.endpoints if piece else ():
            self._count(endpoint, owner, 1)
            touched[endpoint.address, ""] = None
        self._forget_empty(owner, entry)
        return list(touched)

    def _count(self, endpoint: Endpoint, owner: Owner, step: int) -> None:
        """An address may stand in two slices while they are rewritten: its name goes with the last."""
        name = (endpoint.hostname, owner[1], owner[0], "svc")
        names = self._endpoint_names.setdefault(endpoint.address, {})
        names[name] = names.get(name, 0) + step
        if names[name] <= 0:
            _drop(self._endpoint_names, endpoint.address, name)

    def _forget_empty(self, owner: Owner, entry: _Entry) -> None:
        if entry.service is None and not entry.slices:
            self._entries.pop(owner, None)

    def add_namespace(self, name: str) -> None:
        self._namespaces.add(name)

    def remove_namespace(self, name: str) -> None:
        self._namespaces.discard(name)

    def is_headless(self, owner: Owner) -> bool:
        """Whether a Service that is known has no address of its own."""
        service = self._service(owner)
        return service is not None and service.headless

    def find(self, name: Labels) -> Found | None:
        """What a name below the zone has; None when there is no such name."""
        if len(name) < 2:
            if name == ("dns-version",):
                return Found(text=VERSION)
            return EMPTY if name in ((), ("svc",), ("pod",), ("dns",)) else None
        if name == ("ns", "dns"):
            return Found(self._virtual(name, self._service(DNS_SERVICE)))
        kind, namespace = name[-1], name[-2]
        if namespace not in self._namespaces or kind not in ("svc", "pod"):
            return None
        if len(name) == 2:
            return EMPTY
        return self._pod(name) if kind == "pod" else self._below_service(name)

    def _service(self, owner: Owner) -> Service | None:
        entry = self._entries.get(owner)
        return entry.service if entry else None

    def _pod(self, name: Labels) -> Found | None:
        """``10-0-0-1.<namespace>.pod``: any address, whether or not a pod has it, as ``pods insecure`` of CoreDNS."""
        label = name[0]
        dotted = label.count("-") == 3 and "--" not in label
        address = canonical(label.replace("-", "." if dotted else ":"))
        return Found((Target(name, address, 0),)) if len(name) == 3 and address else None

    def _below_service(self, name: Labels) -> Found | None:
        own = name[-3:]
        entry = self._entries.get((name[-2], name[-3]))
        service = entry.service if entry else None
        if entry is None or service is None:
            return None
        if service.external:
            return Found(external=service.external) if len(name) == 3 else None
        if len(name) == 3:
            targets = self._endpoints(own, entry) if service.headless else self._virtual(own, service)
            return Found(targets) if targets else None
        if len(name) == 4:
            return self._one_below(name, entry, service)
        if len(name) != 5 or not (name[0].startswith("_") and name[1].startswith("_")):
            return None
        wanted = (name[0][1:], name[1][1:])
        every = self._endpoints(own, entry, wanted) if service.headless else self._virtual(own, service, wanted)
        return Found(every) if every else None

    def _one_below(self, name: Labels, entry: _Entry, service: Service) -> Found | None:
        """An endpoint's own name; or ``_tcp``, which has no record but names below it."""
        label, own = name[0], name[1:]
        if (host := entry.by_host().get(label)) is not None:
            return Found(tuple(Target(name, address, port.number) for address, port in host))
        if not label.startswith("_"):
            return None
        ports: Iterable[Port] = service.ports
        if service.headless:
            ports = (port for piece in entry.slices.values() if piece.endpoints for port in piece.ports)
        return EMPTY if own and any(port.name and port.protocol == label[1:] for port in ports) else None

    def _virtual(self, host: Labels, service: Service | None, wanted: tuple[str, str] | None = None) -> tuple[Target, ...]:
        if service is None:
            return ()
        return tuple(
            Target(host, address, port.number)
            for port in service.ports
            for address in service.addresses
            if wanted is None or (port.name, port.protocol) == wanted
        )

    def _endpoints(self, own: Labels, entry: _Entry, wanted: tuple[str, str] | None = None) -> tuple[Target, ...]:
        return tuple(
            Target((host, *own), address, port.number)
            for host, pairs in entry.by_host().items()
            for address, port in pairs
            if wanted is None or (port.name, port.protocol) == wanted
        )

    def pointers(self, address: str) -> list[Labels]:
        """Names below the zone that an address has: of the Service whose cluster IP it is, else of every endpoint there."""
        for namespace, name in self._service_names.get(address, ()):
            return [(name, namespace, "svc")]
        return list(self._endpoint_names.get(address, ()))


def _drop(names: dict[str, dict[Key, Value]], address: str, key: Key) -> None:
    held = names.get(address)
    if held is not None:
        held.pop(key, None)
        if not held:
            del names[address]


def owner_of(name: Labels) -> Owner:
    """Which Service's changes concern a name below the zone; a name above all Services has the owner ``("", "")``."""
    if name == ("ns", "dns") or not name:
        return DNS_SERVICE
    return (name[-2], name[-3]) if len(name) >= 3 else ("", "")


def reverse_address(name: Labels) -> str:
    """The address that a whole ``in-addr.arpa`` or ``ip6.arpa`` name stands for; empty for any other name."""
    if name[-2:] == ("in-addr", "arpa") and len(name) == 6:
        return canonical(".".join(reversed(name[:4])))
    if name[-2:] == ("ip6", "arpa") and len(name) == 34 and all(len(digit) == 1 for digit in name[:32]):
        digits = "".join(reversed(name[:32]))
        return canonical(":".join(digits[start : start + 4] for start in range(0, 32, 4)))
    return ""
