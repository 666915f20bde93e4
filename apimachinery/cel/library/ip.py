"""IP addresses: made from text, asked what they are. Upstream's ``library.IP`` (Go's ``net/netip``)."""

import ipaddress
from typing import Any

from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, INT, STRING, Overload, T

TYPE = T(values.IP)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LOCAL_GROUPS = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("169.254.0.0/16"))


def read(text: str) -> Address:
    """Raises ValueError with upstream's message."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(
            f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): {_why(text)}'
        ) from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if found.ipv4_mapped is not None:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def _why(text: str) -> str:
    """Go's reason, for the common mistakes."""
    parts = text.split(".")
    if ":" in text or len(parts) == 1:
        return "unable to parse IP"
    if any(not part for part in parts):
        return "IPv4 field must have at least one digit"
    if any(not part.isascii() or not part.isdigit() for part in parts):
        return "unexpected character"
    if any(len(part) > 1 and part[0] == "0" for part in parts):
        return "IPv4 field has octet with leading zero"
    if any(int(part[:4]) > 255 for part in parts):
        return "IPv4 field has value >255"
    return "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"


def make(address: Address) -> Any:
    return values.make(values.IP, str(address))


def address_of(value: Any) -> Address:
    return ipaddress.ip_address(values.text_of(value))


def is_ip(text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_link_local_multicast(value: Any) -> bool:
    address = address_of(value)
    if address.version == 4:
        return address in _LOCAL_GROUPS[0]
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_link_local_unicast(value: Any) -> bool:
    address = address_of(value)
    return address in _LOCAL_GROUPS[1] if address.version == 4 else address.is_link_local


def _is_global_unicast(value: Any) -> bool:
    address = address_of(value)
    if address.version == 4 and address.packed == b"\xff\xff\xff\xff":
        return False
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    return not special and not _is_link_local_unicast(value)


OVERLOADS = (
    Overload("ip", "string_to_ip", (STRING,), TYPE, lambda text: make(read(text))),
    Overload("isIP", "is_ip", (STRING,), BOOL, is_ip),
    Overload("ip.isCanonical", "ip_is_canonical", (STRING,), BOOL, lambda text: str(read(text)) == text),
    Overload("family", "ip_family", (TYPE,), INT, lambda value: address_of(value).version, True),
    Overload("isUnspecified", "ip_is_unspecified", (TYPE,), BOOL, lambda value: address_of(value).is_unspecified, True),
    Overload("isLoopback", "ip_is_loopback", (TYPE,), BOOL, lambda value: address_of(value).is_loopback, True),
    Overload("isLinkLocalMulticast", "ip_is_link_local_multicast", (TYPE,), BOOL, _is_link_local_multicast, True),
    Overload("isLinkLocalUnicast", "ip_is_link_local_unicast", (TYPE,), BOOL, _is_link_local_unicast, True),
    Overload("isGlobalUnicast", "ip_is_global_unicast", (TYPE,), BOOL, _is_global_unicast, True),
)
BESIDE_OTHERS = (Overload("string", "ip_to_string", (TYPE,), STRING, values.text_of),)
