"""Numbers and addresses of which only one object may hold each: cluster IPs and node ports.

A claim is a key of its own, made and removed in the very transaction that stores or removes its holder, so a crash leaves
neither a leak nor a double. Strategies ask a ``Pool`` for free items and put the claims into their ``Allocation``; when
another writer was faster the transaction fails on the claim's condition and the registry asks the strategy again.

Random picks come from the upper band of a range first: the lower one is left to people who ask for a number (upstream's
static and dynamic bands).
"""

import ipaddress
import random
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

from controlplane.apiserver.storage.interface import KeyValue, Range

_TRIES = 8  # random picks before the taken ones are listed

ALREADY_ALLOCATED_IP = "provided IP is already allocated"
ALREADY_ALLOCATED_PORT = "provided port is already allocated"


class RangeFullError(Exception):
    """Every item of the range is taken."""

    def __init__(self) -> None:
        super().__init__("range is full")


class Reader(Protocol):
    """The part of a Backend that allocation needs."""

    async def get(self, key: str, revision: int = 0) -> KeyValue | None: ...

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range: ...


@dataclass(frozen=True, slots=True)
class Items:
    """A range as texts by position: ``[0, reserved)`` is the band for explicit requests."""

    size: int
    reserved: int
    text: Callable[[int], str]


def addresses(cidr: str) -> Items:
    """Usable addresses of a network: neither its first one nor an IPv4 broadcast address."""
    network = ipaddress.ip_network(cidr)
    total = min(network.num_addresses, 1 << 62)
    size = max(total - (2 if network.version == 4 else 1), 0)
    reserved = 0 if total < 16 else min(max(16, total // 16), 256)
    base = int(network.network_address) + 1
    make = ipaddress.IPv4Address if network.version == 4 else ipaddress.IPv6Address
    return Items(size, min(reserved, size), lambda position: str(make(base + position)))


def ports(low: int, high: int) -> Items:
    """Port numbers from ``low`` to ``high``, both included."""
    size = high - low + 1
    reserved = 0 if size < 16 else min(max(16, size // 32), 128)
    return Items(size, reserved, lambda position: str(low + position))


class Pool:
    """Free and taken items of one range, whose claims are the keys ``prefix + item``."""

    def __init__(self, reader: Reader, prefix: str, items: Items, choose: Callable[[int], int] = random.randrange) -> None:
        self._reader, self._prefix, self._items, self._choose = reader, prefix, items, choose

    def key(self, item: str) -> str:
        return self._prefix + item

    async def is_taken(self, item: str) -> bool:
        return await self._reader.get(self.key(item)) is not None

    async def pick(self, avoid: Container[str] = ()) -> str:
        """A free item, not one of ``avoid``. Raises RangeFullError."""
        size, reserved = self._items.size, self._items.reserved
        if size > reserved:
            for _ in range(_TRIES):
                item = self._items.text(reserved + self._choose(size - reserved))
                if item not in avoid and not await self.is_taken(item):
                    return item
        return await self._search(avoid)

    async def _search(self, avoid: Container[str]) -> str:
        """The range is nearly full: list what is taken and walk from a random place through each band."""
        found = await self._reader.range(self._prefix)
        taken = {entry.key[len(self._prefix) :] for entry in found.items}
        size, reserved = self._items.size, self._items.reserved
        for start, length in ((reserved, size - reserved), (0, reserved)):
            if not length:
                continue
            offset = self._choose(length)
            # as many steps as there are taken items, and one, must meet a free one if there is any
            for step in range(length):
                item = self._items.text(start + (offset + step) % length)
                if item not in taken and item not in avoid:
                    return item
        raise RangeFullError
