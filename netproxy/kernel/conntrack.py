"""The kernel's connection table: listing and deleting UDP entries by netlink; real and fake. Called by ``conntrack``.

Spoken here directly: a dump through pyroute2 costs 170 us an entry, on a thread that shares its interpreter with the
kubelet; this one reads only the tuples. And no conntrack tool has to be installed.
"""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from netproxy.kernel import netlink

UDP: Final = 17
_GET, _DELETE = (1 << 8) | 1, (1 << 8) | 2  # subsystem conntrack
_TUPLE_ORIG, _TUPLE_REPLY, _ZONE = 1, 2, 18
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_GENERIC = struct.Struct("=BBH")
# An IPv4 tuple as the kernel writes it: length and type, source, destination, protocol, source port, destination port.
_TUPLE_V4 = struct.Struct("=HH8x4s4x4s8xB3x4x2s2x4x2s2x")


@dataclass(frozen=True, slots=True)
class Flow:
    """One tracked flow: where it was sent, and who answers. ``handle`` is what the kernel needs to find it again."""

    destination: str
    port: int
    reply_source: str
    reply_port: int
    handle: bytes = field(default=b"", repr=False)

    @property
    def translated(self) -> bool:
        return (self.destination, self.port) != (self.reply_source, self.reply_port)


class Conntrack(Protocol):
    """One address family's flows."""

    async def udp_flows(self) -> Sequence[Flow]:
        """:raises OSError: when the table cannot be read."""
        ...

    async def delete(self, flows: Iterable[Flow]) -> int:
        """Forget these flows, those already gone silently; how many were deleted. :raises OSError: when refused."""
        ...


class RealConntrack:
    """The table of the network namespace of the calling thread."""

    def __init__(self, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._family = socket.AF_INET6 if family == "IPv6" else socket.AF_INET

    async def udp_flows(self) -> Sequence[Flow]:
        with netlink.open_socket(netlink.NETFILTER) as link:
            return await asyncio.to_thread(lambda: list(_dump(link, self._family)))

    async def delete(self, flows: Iterable[Flow]) -> int:
        with netlink.open_socket(netlink.NETFILTER) as link:
            return await asyncio.to_thread(_delete_all, link, self._family, list(flows))


class FakeConntrack:
    """Flows in a list. What it does not imitate: flows do not expire, and nothing adds to them but the test."""

    def __init__(self, flows: Iterable[Flow] = ()) -> None:
        self.flows = list(flows)
        self.dumps = 0

    async def udp_flows(self) -> Sequence[Flow]:
        self.dumps += 1
        return list(self.flows)

    async def delete(self, flows: Iterable[Flow]) -> int:
        gone = [flow for flow in flows if flow in self.flows]
        self.flows = [flow for flow in self.flows if flow not in gone]
        return len(gone)


def _generic(family: int) -> bytes:
    return _GENERIC.pack(family, 0, 0)


def _dump(link: socket.socket, family: int) -> Iterator[Flow]:
    for body in netlink.dump(link, _GET, _generic(family)):
        flow = _flow(body)
        if flow is not None:
            yield flow


def _flow(body: memoryview) -> Flow | None:
    """None for another protocol than UDP. The usual layout is read at once, attribute by attribute costs three times that."""
    start, size = _GENERIC.size, _TUPLE_V4.size
    after = start + 2 * size
    if len(body) < after + netlink.ATTRIBUTE.size or netlink.ATTRIBUTE.unpack_from(body, after)[1] == _ZONE:
        return _any_flow(body)
    length, kind, _, destination, protocol, _, port = _TUPLE_V4.unpack_from(body, start)
    reply_length, reply_kind, source, _, _, reply_port, _ = _TUPLE_V4.unpack_from(body, start + size)
    if (length, kind, reply_length, reply_kind) != (size, _TUPLE_ORIG | netlink.NESTED, size, _TUPLE_REPLY | netlink.NESTED):
        return _any_flow(body)
    if protocol != UDP:
        return None
    return Flow(
        socket.inet_ntoa(destination),
        int.from_bytes(port, "big"),
        socket.inet_ntoa(source),
        int.from_bytes(reply_port, "big"),
        bytes(body[start : start + size]),
    )


def _any_flow(body: memoryview) -> Flow | None:
    """The same for what is written otherwise: IPv6, zones, protocols with other attributes."""
    original = reply = None
    handle = b""
    for kind, payload, whole in netlink.attributes(body[_GENERIC.size :]):
        if kind == _TUPLE_ORIG:
            original = _tuple(payload)
            if original is None:
                return None
            handle += bytes(whole)
        elif kind == _TUPLE_REPLY:
            reply = _tuple(payload)
        elif kind == _ZONE:
            handle += bytes(whole)
    if original is None or reply is None:
        return None
    return Flow(original[1], original[2], reply[0], reply[3], handle)


def _tuple(data: memoryview) -> tuple[str, str, int, int] | None:
    """Source, destination, destination port and source port; None when it is not UDP."""
    addresses: dict[int, str] = {}
    ports: dict[int, int] = {}
    for kind, payload, _ in netlink.attributes(data):
        if kind == _TUPLE_IP:
            for which, address, _ in netlink.attributes(payload):
                # 1, 2: IPv4 source and destination; 3, 4: the same for IPv6
                addresses[(which - 1) % 2] = socket.inet_ntop(socket.AF_INET6 if which > 2 else socket.AF_INET, address)
        elif kind == _TUPLE_PROTO:
            for which, value, _ in netlink.attributes(payload):
                if which == 1 and value[0] != UDP:
                    return None
                if which in (2, 3):
                    ports[which] = int.from_bytes(value, "big")
    if len(addresses) < 2 or len(ports) < 2:
        return None
    return addresses[0], addresses[1], ports[3], ports[2]


def _delete_all(link: socket.socket, family: int, flows: Sequence[Flow]) -> int:
    codes = netlink.batch(link, [(_DELETE, 0, _generic(family) + flow.handle) for flow in flows])
    for code in codes:
        if code not in (0, errno.ENOENT):
            raise OSError(code, f"cannot delete a conntrack entry: {os.strerror(code)}")
    return codes.count(0)
