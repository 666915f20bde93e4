"""Addresses of this machine, and the dummy device that holds those of Services. Called by ``backends.ipvs`` and ``cleanup``.

IPVS sees a packet only when its destination is an address of the machine. The device stays down: its addresses are local all the
same. The fake is in ``fake_ipvs``.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from netproxy.kernel import netlink

DEVICE: Final = "kube-ipvs0"
_NEW_LINK, _DELETE_LINK, _NEW_ADDRESS, _DELETE_ADDRESS, _GET_ADDRESS = 16, 17, 20, 21, 22
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_IF_NAME, _LINK_INFO, _INFO_KIND = 3, 18, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_NO_DAD: Final = 2  # nobody else is asked whether the address is taken: every node has it


class AddressError(Exception):
    """The device or its addresses cannot be read or changed; the text says why."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """``node``: those of all devices but ours, without loopback and link-local ones; ``bound``: ours, None without the device."""

    node: frozenset[str] = frozenset()
    bound: frozenset[str] | None = None


class LocalAddresses(Protocol):
    """One address family."""

    async def look(self) -> Addresses:
        """:raises AddressError:"""
        ...

    async def ensure_device(self) -> None:
        """Make ``kube-ipvs0`` unless it is there. :raises AddressError: when this kernel has no dummy devices, too."""
        ...

    async def change(self, added: Iterable[str], removed: Iterable[str]) -> Mapping[str, str]:
        """Bind and unbind addresses; what was refused and why. What is so already is no failure. :raises AddressError:"""
        ...


class RealLocalAddresses:
    """Of the network namespace of the calling thread."""

    def __init__(self, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._family, self._length = (socket.AF_INET6, 128) if family == "IPv6" else (socket.AF_INET, 32)

    async def look(self) -> Addresses:
        index = _index()
        try:
            with netlink.open_socket(netlink.ROUTE) as link:
                return await asyncio.to_thread(self._look, link, index)
        except OSError as error:
            raise AddressError(f"cannot list the addresses of this machine: {error.strerror or error}") from error

    async def ensure_device(self) -> None:
        if _index():
            return
        kind = netlink.attribute(_INFO_KIND, b"dummy")
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        body += netlink.attribute(_IF_NAME, DEVICE.encode() + b"\0") + netlink.attribute(_LINK_INFO | netlink.NESTED, kind)
        await _change_link(_NEW_LINK, netlink.CREATE | netlink.EXCLUSIVE, body, (errno.EEXIST,))

    async def change(self, added: Iterable[str], removed: Iterable[str]) -> Mapping[str, str]:
        new, gone = list(added), list(removed)
        if not new and not gone:
            return {}
        index = _index()
        requests = [(_NEW_ADDRESS, netlink.CREATE | netlink.EXCLUSIVE, self._encoded(each, index)) for each in new]
        requests += [(_DELETE_ADDRESS, 0, self._encoded(each, index)) for each in gone]
        try:
            with netlink.open_socket(netlink.ROUTE) as link:
                codes = await asyncio.to_thread(netlink.batch, link, requests)
        except OSError as error:
            raise AddressError(f"cannot change the addresses of {DEVICE}: {error.strerror or error}") from error
        fine = (0, errno.EEXIST), (0, errno.EADDRNOTAVAIL)
        failed: dict[str, str] = {}
        for number, (address, code) in enumerate(zip([*new, *gone], codes, strict=True)):
            if code not in fine[number >= len(new)]:
                failed[address] = f"{address} on {DEVICE}: {os.strerror(code)}"
        return failed

    def _encoded(self, address: str, index: int) -> bytes:
        packed = socket.inet_pton(self._family, address)
        body = _ADDRESS.pack(self._family, self._length, _NO_DAD if self._length == 128 else 0, 0, index)
        return body + netlink.attribute(_IFA_LOCAL, packed) + netlink.attribute(_IFA_ADDRESS, packed)

    def _look(self, link: socket.socket, index: int) -> Addresses:
        node, bound = set(), set()
        for body in netlink.dump(link, _GET_ADDRESS, _ADDRESS.pack(self._family, 0, 0, 0, 0)):
            family, _, _, _, of = _ADDRESS.unpack_from(body)
            fields = netlink.by_kind(body[_ADDRESS.size :])
            packed = fields.get(_IFA_LOCAL, fields.get(_IFA_ADDRESS))
            if family != self._family or packed is None:
                continue
            text = socket.inet_ntop(family, packed)
            if of == index:
                bound.add(text)
            elif not (found := ipaddress.ip_address(text)).is_loopback and not found.is_link_local:
                node.add(text)
        return Addresses(frozenset(node), frozenset(bound) if index else None)


async def remove_device() -> None:
    """With all its addresses; without it there is nothing to do. :raises AddressError:"""
    index = _index()
    if index:
        await _change_link(_DELETE_LINK, 0, _LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0), (errno.ENODEV,))


def device_exists() -> bool:
    return _index() != 0


def _index() -> int:
    """0 without the device. Asked on the calling thread, whose namespace it is."""
    try:
        return socket.if_nametoindex(DEVICE)
    except OSError:
        return 0


async def _change_link(kind: int, flags: int, body: bytes, fine: tuple[int, ...]) -> None:
    try:
        with netlink.open_socket(netlink.ROUTE) as link:
            (code,) = await asyncio.to_thread(netlink.batch, link, [(kind, flags, body)])
    except OSError as error:
        raise AddressError(f"{DEVICE}: {error.strerror or error}") from error
    if code == errno.EOPNOTSUPP:
        raise AddressError(f"{DEVICE}: this kernel has no dummy devices (modprobe dummy)")
    if code and code not in fine:
        raise AddressError(f"{DEVICE}: {os.strerror(code)}")
