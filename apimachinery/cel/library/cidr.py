"""Networks in CIDR notation: made from text, asked what they contain. Upstream's ``library.CIDR``.

``string`` of one takes the overload that addresses have declared: at run time both are messages, and their texts are what they
are. The type checker therefore refuses it; ``dyn`` gets past it.
"""

import ipaddress
import re
from typing import Any

from apimachinery.cel import values
from apimachinery.cel.library import ip
from apimachinery.cel.library.declare import BOOL, INT, STRING, Overload, T

_TYPE = T(values.CIDR)
_BITS = re.compile(r"0|[1-9][0-9]{0,2}")
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _read(text: str) -> Interface:
    """Raises ValueError with upstream's message."""
    problem = f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError(f"{problem}: no '/'")
    if not _BITS.fullmatch(bits):
        raise ValueError(f'{problem}: bad bits after slash: "{bits}"')
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        if ip.is_ip(address):
            raise ValueError(f"{problem}: prefix length out of range") from None
        raise ValueError(f'{problem}: ParseAddr("{address}"): unable to parse IP') from None
    if isinstance(found, ipaddress.IPv6Interface):
        if "%" in address:
            raise ValueError(f"{problem}: IPv6 zones cannot be present in a prefix")
        if found.ip.ipv4_mapped is not None:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def _make(interface: Interface) -> Any:
    return values.make(values.CIDR, str(interface))


def _of(value: Any) -> Interface:
    return ipaddress.ip_interface(values.text_of(value))


def _is_cidr(text: str) -> bool:
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _masked(value: Any) -> Any:
    return _make(ipaddress.ip_interface(str(_of(value).network)))


def _contains_address(value: Any, address: ip.Address) -> bool:
    network = _of(value).network
    return network.version == address.version and address in network


def _contains_network(value: Any, other: Interface) -> bool:
    network = _of(value).network
    return network.version == other.version and other.ip in network and network.prefixlen <= other.network.prefixlen


OVERLOADS = (
    Overload("cidr", "string_to_cidr", (STRING,), _TYPE, lambda text: _make(_read(text))),
    Overload("isCIDR", "is_cidr", (STRING,), BOOL, _is_cidr),
    Overload("containsIP", "cidr_contains_ip_string", (_TYPE, STRING), BOOL, lambda a, b: _contains_address(a, ip.read(b)), True),
    Overload(
        "containsIP", "cidr_contains_ip_ip", (_TYPE, ip.TYPE), BOOL, lambda a, b: _contains_address(a, ip.address_of(b)), True
    ),
    Overload(
        "containsCIDR", "cidr_contains_cidr_string", (_TYPE, STRING), BOOL, lambda a, b: _contains_network(a, _read(b)), True
    ),
    Overload("containsCIDR", "cidr_contains_cidr", (_TYPE, _TYPE), BOOL, lambda a, b: _contains_network(a, _of(b)), True),
    Overload("ip", "cidr_ip", (_TYPE,), ip.TYPE, lambda value: ip.make(_of(value).ip), True),
    Overload("prefixLength", "cidr_prefix_length", (_TYPE,), INT, lambda value: _of(value).network.prefixlen, True),
    Overload("masked", "cidr_masked", (_TYPE,), _TYPE, _masked, True),
)
