"""Warnings about addresses that are accepted today and will not always be (KEP-4858): upstream's ``GetWarningsForIP``."""

import ipaddress
import re
from collections.abc import Iterator

_LEADING_ZERO = re.compile(r"(^|\.)0\d")
_FUTURE = "will be considered invalid in a future Kubernetes release: use"


def _sloppy(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """As Go used to read them, with leading zeros."""
    plain = re.sub(r"(^|\.)0+(?=\d)", r"\1", text) if ":" not in text else text
    try:
        return ipaddress.ip_address(plain)
    except ValueError:
        return None


def _preferred(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)


def of_ip(text: str, path: str) -> Iterator[str]:
    ip = _sloppy(text)
    if ip is None:
        return
    preferred = _preferred(ip)
    if (":" not in text and _LEADING_ZERO.search(text)) or (ip.version == 6 and ":" not in preferred):
        yield f'{path}: non-standard IP address "{text}" {_FUTURE} "{preferred}"'
    elif ip.version == 6 and preferred != text:
        yield f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{preferred}")'


def of_cidr(text: str, path: str) -> Iterator[str]:
    address, _, bits = text.partition("/")
    ip = _sloppy(address)
    if ip is None or not bits.isdecimal() or int(bits) > ip.max_prefixlen:
        return
    network = ipaddress.ip_network(f"{ip}/{bits}", strict=False)
    ambiguous = network.network_address != ip
    if ambiguous:
        yield f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{network}" or "{ip}/{ip.max_prefixlen}"?)'
    zeros = ":" not in text and _LEADING_ZERO.search(address)
    mapped = ip.version == 6 and ":" not in _preferred(ip)
    if zeros or mapped or str(int(bits)) != bits:
        yield f'{path}: non-standard CIDR value "{text}" {_FUTURE} "{network}"'
    elif not ambiguous and ip.version == 6 and str(network) != text:
        yield f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")'
