"""Whom the forwarder asks: the ConfigMap of the cluster, the flag, or the node's file. Made and run by ``__main__``.

All but the flag may change while the server runs; each change is followed by a search for loops.
"""

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from component import logs
from component.clock import Clock
from netproxy.dns import config, stubs, wire
from netproxy.dns.config import Config
from netproxy.dns.forward import Forwarder, Probes, find_loops
from netproxy.dns.stubs import Stubs
from netproxy.dns.upstream import Address

_log = logs.get(__name__)
LOOK_SECONDS = 5.0
"""Between two looks at the file."""
LOOP_SECONDS = 300.0
"""Between two searches for loops: one may come or go without a change of ours."""
Object = dict[str, Any]


class Resolvers:
    """Tells the forwarder whom to ask, and leaves ourselves out: ``own`` are the addresses on which we answer."""

    def __init__(
        self, settings: Config, forwarder: Forwarder, probes: Probes, own: Callable[[], set[Address]], clock: Clock
    ) -> None:
        self._settings, self._forwarder, self._probes, self._own, self._clock = settings, forwarder, probes, own, clock
        self._file_seen: float | None = None
        self._file: tuple[Address, ...] = ()
        self._stubs = Stubs()
        self._used: tuple[tuple[Address, ...], Stubs] | None = None
        self._search_at = 0.0

    def configure(self, obj: Object | None) -> None:
        """The ConfigMap is now this; None when there is none. What it says wrongly changes nothing."""
        try:
            self._stubs = stubs.read((obj or {}).get("data") or {}, self._settings.domain)
        except ValueError as error:
            _log.error("The ConfigMap kube-system/kube-dns is not usable, its last good state counts", err=error)
        self._apply()

    async def look(self) -> None:
        """Take up what changed in the file, and find out whether somebody new asks us."""
        if self._settings.resolv_conf is not None and not self._settings.upstreams:
            await asyncio.to_thread(self._read_file, self._settings.resolv_conf)
        self._apply()
        if self._clock.monotonic() >= self._search_at:
            self._search_at = self._clock.monotonic() + LOOP_SECONDS
            await find_loops(self._forwarder, self._probes, probe)

    def _apply(self) -> None:
        wanted = (self._stubs.upstreams or self._settings.upstreams or self._file, self._stubs)
        if wanted == self._used:
            return
        self._used, self._search_at = wanted, 0.0
        upstreams = self._without_us(wanted[0])
        _log.info("Asking other names of", resolvers=[str(each) for each in upstreams], stub_domains=len(self._stubs.domains))
        domains = {domain: self._without_us(servers) for domain, servers in self._stubs.domains.items()}
        self._forwarder.use(upstreams, domains)

    def _without_us(self, addresses: tuple[Address, ...]) -> list[Address]:
        own = self._own()
        if own.intersection(addresses):
            _log.warning("This server is one of its own resolvers, it is left out")
        return [each for each in addresses if each not in own]

    def _read_file(self, file: Path) -> None:
        try:
            seen = os.stat(file).st_mtime
            if seen == self._file_seen:
                return
            text = file.read_text(errors="replace")
        except OSError as error:
            _log.warning("Cannot read the file of resolvers", file=str(file), err=error.strerror)
            return
        self._file_seen, self._file = seen, tuple(config.resolvers_of(text))


def probe(domain: bytes) -> wire.Query:
    """A question below a domain that nobody else asks."""
    labels = (secrets.token_hex(12).encode(), b"pybernetes-loop")
    name = b"".join(bytes([len(label)]) + label for label in labels) + domain
    question = name + bytes([0, wire.HINFO, 0, wire.IN])
    return wire.Query(0, wire.RD, question, question, wire.HINFO)
