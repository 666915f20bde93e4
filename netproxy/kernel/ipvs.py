"""The kernel's virtual servers (IPVS) by generic netlink. Called by ``backends.ipvs``, ``families`` and ``cleanup``.

A virtual server is an address, a protocol and a port; packets to it go to one of its real servers, by its scheduler. The fake is
in ``fake_ipvs``.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeVar

from netproxy.kernel import netlink

T = TypeVar("T")
PERSISTENT: Final = 0x1
SOURCE_HASH: Final = 0x10
"""Schedulers that hash take source and port."""
_HASHED: Final = 0x2  # the kernel's own mark
MASQUERADE: Final = 0  # forwarding method: translate addresses
_ALL_FLAGS: Final = 0xFFFFFFFF
_CONTROL: Final = 16  # the generic netlink family that knows the others
_GET_FAMILY: Final = 3
_FAMILY_ID, _FAMILY_NAME = 1, 2
_SET_CONFIG: Final = 12
_FLUSH: Final = 17
_GET_SERVICE, _GET_DEST = 4, 8
_COMMANDS: Final = {
    "add server": 1,
    "set server": 2,
    "delete server": 3,
    "add real": 5,
    "set real": 6,
    "delete real": 7,
}
_SERVICE, _DEST = 1, 2
_TIMEOUTS: Final = (4, 5, 6)
_AF, _PROTOCOL, _ADDRESS, _PORT, _SCHEDULER, _FLAGS, _TIMEOUT, _MASK = 1, 2, 3, 4, 6, 7, 8, 9
_R_ADDRESS, _R_PORT, _R_METHOD, _R_WEIGHT, _R_UPPER, _R_LOWER, _R_ACTIVE, _R_INACTIVE, _R_FAMILY = 1, 2, 3, 4, 5, 6, 7, 8, 11
_PROTOCOLS: Final = {"TCP": socket.IPPROTO_TCP, "UDP": socket.IPPROTO_UDP, "SCTP": socket.IPPROTO_SCTP}
_NAMES: Final = {number: name for name, number in _PROTOCOLS.items()}


class IPVSError(Exception):
    """The kernel has no virtual servers, or refuses; the text says which."""


@dataclass(frozen=True, slots=True, order=True)
class Server:
    """Identifies a virtual server."""

    address: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{_host(self.address)}:{self.port}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a virtual server chooses. ``timeout``: seconds that a client stays with its real server, under ``PERSISTENT``."""

    scheduler: str = "rr"
    flags: int = 0
    timeout: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Real:
    """Identifies a real server of a virtual one."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{_host(self.address)}:{self.port}"


@dataclass(frozen=True, slots=True)
class RealState:
    """``weight`` 0 gets no new connections. ``connections``: those that are tracked, established or not."""

    weight: int = 1
    connections: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A virtual server as the kernel has it."""

    settings: Settings
    reals: Mapping[Real, RealState] = field(default_factory=dict)


Verb = Literal["add server", "set server", "delete server", "add real", "set real", "delete real"]


@dataclass(frozen=True, slots=True)
class Call:
    """One change. ``settings`` for a virtual server that is added or set, ``real`` and ``weight`` for a real server."""

    verb: Verb
    server: Server
    settings: Settings | None = None
    real: Real | None = None
    weight: int = 1

    def __str__(self) -> str:
        return f"{self.verb} {self.server}" + (f" {self.real}" if self.real else "")


class IPVS(Protocol):
    """The virtual servers of one address family."""

    async def servers(self) -> Mapping[Server, Held]:
        """All, with their real servers; those that are found by a firewall mark are not looked at. :raises IPVSError:"""
        ...

    async def reals(self, server: Server) -> Mapping[Real, RealState]:
        """Of one virtual server; empty when it does not exist. :raises IPVSError:"""
        ...

    async def run(self, calls: Sequence[Call]) -> Mapping[Call, str]:
        """Make each change in order; what was refused and why. One that is refused does not stop those after it.

        :raises IPVSError: when the kernel does not answer.
        """
        ...


class RealIPVS:
    """The virtual servers of the network namespace of the calling thread."""

    def __init__(self, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._family = socket.AF_INET6 if family == "IPv6" else socket.AF_INET

    async def servers(self) -> Mapping[Server, Held]:
        return await _ask(self._servers)

    async def reals(self, server: Server) -> Mapping[Real, RealState]:
        return await _ask(lambda link, kind: self._reals(link, kind, server))

    async def run(self, calls: Sequence[Call]) -> Mapping[Call, str]:
        return await _ask(lambda link, kind: self._run(link, kind, calls)) if calls else {}

    async def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        """Seconds; 0 leaves one as it is. For both families. :raises IPVSError:"""
        body = b"".join(
            netlink.attribute(kind, struct.pack("=I", seconds))
            for kind, seconds in zip(_TIMEOUTS, (tcp, tcp_fin, udp), strict=True)
        )
        await _ask(lambda link, kind: _command(link, kind, _SET_CONFIG, body))

    async def flush(self) -> None:
        """Remove every virtual server of both families. :raises IPVSError:"""
        await _ask(lambda link, kind: _command(link, kind, _FLUSH, b""))

    def _servers(self, link: socket.socket, kind: int) -> Mapping[Server, Held]:
        found: dict[Server, Settings] = {}
        for body in netlink.dump(link, kind, _generic(_GET_SERVICE)):
            each = self._server(body)
            if each is not None:
                found[each[0]] = each[1]
        return {server: Held(settings, self._reals(link, kind, server)) for server, settings in found.items()}

    def _server(self, body: memoryview) -> tuple[Server, Settings] | None:
        fields = netlink.by_kind(netlink.by_kind(body[4:])[_SERVICE])
        if _ADDRESS not in fields or struct.unpack_from("=H", fields[_AF])[0] != self._family:
            return None
        protocol = _NAMES.get(struct.unpack_from("=H", fields[_PROTOCOL])[0])
        if protocol is None:
            return None
        server = Server(self._text(fields[_ADDRESS]), protocol, struct.unpack_from("!H", fields[_PORT])[0])
        flags = struct.unpack_from("=I", fields[_FLAGS])[0] & ~_HASHED
        timeout = struct.unpack_from("=I", fields[_TIMEOUT])[0] if flags & PERSISTENT else 0
        return server, Settings(bytes(fields[_SCHEDULER]).rstrip(b"\0").decode(), flags, timeout)

    def _reals(self, link: socket.socket, kind: int, server: Server) -> Mapping[Real, RealState]:
        found: dict[Real, RealState] = {}
        of_this = netlink.attribute(_SERVICE | netlink.NESTED, self._key(server))
        for body in netlink.dump(link, kind, _generic(_GET_DEST) + of_this):
            fields = netlink.by_kind(netlink.by_kind(body[4:])[_DEST])
            real = Real(self._text(fields[_R_ADDRESS]), struct.unpack_from("!H", fields[_R_PORT])[0])
            weight, active, inactive = (struct.unpack_from("=I", fields[each])[0] for each in (_R_WEIGHT, _R_ACTIVE, _R_INACTIVE))
            found[real] = RealState(weight, active + inactive)
        return found

    def _run(self, link: socket.socket, kind: int, calls: Sequence[Call]) -> Mapping[Call, str]:
        refused: dict[Call, str] = {}
        possible: list[Call] = []
        requests: list[tuple[int, int, bytes]] = []
        for call in calls:
            try:
                requests.append((kind, 0, self._encoded(call)))
            except (struct.error, OSError) as error:
                refused[call] = f"{call}: {error}"
            else:
                possible.append(call)
        for call, code in zip(possible, netlink.batch(link, requests), strict=True):
            if code:
                refused[call] = f"{call}: {os.strerror(code)}"
        return refused

    def _encoded(self, call: Call) -> bytes:
        service = self._key(call.server)
        if call.settings is not None:
            mask = struct.pack("=I", 128) if self._family == socket.AF_INET6 else b"\xff" * 4
            service += netlink.attribute(_SCHEDULER, call.settings.scheduler.encode() + b"\0")
            service += netlink.attribute(_FLAGS, struct.pack("=II", call.settings.flags, _ALL_FLAGS))
            service += netlink.attribute(_TIMEOUT, struct.pack("=I", call.settings.timeout))
            service += netlink.attribute(_MASK, mask)
        body = _generic(_COMMANDS[call.verb]) + netlink.attribute(_SERVICE | netlink.NESTED, service)
        if call.real is not None:
            real = netlink.attribute(_R_ADDRESS, socket.inet_pton(self._family, call.real.address))
            real += netlink.attribute(_R_PORT, struct.pack("!H", call.real.port))
            real += netlink.attribute(_R_FAMILY, struct.pack("=H", self._family))
            numbers = {_R_METHOD: MASQUERADE, _R_WEIGHT: call.weight, _R_UPPER: 0, _R_LOWER: 0}
            real += b"".join(netlink.attribute(each, struct.pack("=I", value)) for each, value in numbers.items())
            body += netlink.attribute(_DEST | netlink.NESTED, real)
        return body

    def _key(self, server: Server) -> bytes:
        return (
            netlink.attribute(_AF, struct.pack("=H", self._family))
            + netlink.attribute(_PROTOCOL, struct.pack("=H", _PROTOCOLS[server.protocol]))
            + netlink.attribute(_ADDRESS, socket.inet_pton(self._family, server.address))
            + netlink.attribute(_PORT, struct.pack("!H", server.port))
        )

    def _text(self, address: memoryview) -> str:
        """An address is sixteen bytes long in either family."""
        return socket.inet_ntop(self._family, address[: 16 if self._family == socket.AF_INET6 else 4])


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def _ask(question: Callable[[socket.socket, int], T]) -> T:
    """Ask on a thread; the socket is opened here, for it belongs to the namespace of the thread that opens it."""
    try:
        with netlink.open_socket(netlink.GENERIC) as link:
            return await asyncio.to_thread(lambda: question(link, _family(link)))
    except FileNotFoundError:
        raise IPVSError("IPVS not supported by the kernel") from None
    except OSError as error:
        raise IPVSError(f"IPVS: {error.strerror or error}") from error


def _generic(command: int) -> bytes:
    return struct.pack("=BBH", command, 1, 0)


def _command(link: socket.socket, kind: int, command: int, body: bytes) -> None:
    (code,) = netlink.batch(link, [(kind, 0, _generic(command) + body)])
    if code:
        raise OSError(code, os.strerror(code))


def _family(link: socket.socket) -> int:
    """The number under which this kernel knows IPVS. :raises FileNotFoundError: when it does not."""
    body = _generic(_GET_FAMILY) + netlink.attribute(_FAMILY_NAME, b"IPVS\0")
    link.send(netlink.message(_CONTROL, netlink.REQUEST, body))
    for answer, found in netlink.messages(link.recv(1 << 16)):
        if answer == netlink.ERROR:
            raise OSError(netlink.error_of(found), "no IPVS")
        return int(struct.unpack_from("=H", netlink.by_kind(found[4:])[_FAMILY_ID])[0])
    raise OSError("no answer")
