"""The ConfigMap ``kube-system/kube-dns``: resolvers of some domains, and for all other names. Pure; read by ``resolvers``.

Its form is that of kube-dns, which NodeLocal DNSCache reads too: ``stubDomains`` is a JSON map of domains to lists of addresses,
``upstreamNameservers`` a JSON list of at most three that takes the place of the node's own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from apimachinery import names
from netproxy.dns.config import upstream_address
from netproxy.dns.upstream import Address

NAME = "kube-dns"
_MAX_UPSTREAMS = 3
_MAX_DOMAINS = 1000


@dataclass(frozen=True, slots=True)
class Stubs:
    """``domains`` are names as they stand in a lower-case question; ``upstreams`` is empty for the node's own."""

    domains: Mapping[bytes, tuple[Address, ...]] = field(default_factory=dict)
    upstreams: tuple[Address, ...] = ()


def read(data: Mapping[str, str], cluster_domain: str) -> Stubs:
    """Raises ValueError that names what is wrong."""
    domains = _json(data, "stubDomains", dict)
    upstreams = _json(data, "upstreamNameservers", list)
    if len(upstreams) > _MAX_UPSTREAMS:
        raise ValueError("upstreamNameservers cannot have more than three entries")
    if len(domains) > _MAX_DOMAINS:
        raise ValueError(f"stubDomains cannot have more than {_MAX_DOMAINS} entries")
    found = {_domain(name, cluster_domain): _addresses(f"stubDomains[{name}]", servers) for name, servers in domains.items()}
    # a domain without a server of its own is asked for like any other name
    return Stubs({domain: servers for domain, servers in found.items() if servers}, _addresses("upstreamNameservers", upstreams))


def _json(data: Mapping[str, str], key: str, kind: type) -> Any:
    text = data.get(key) or ""
    if not text.strip():
        return kind()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{key}: {error}") from None
    if not isinstance(value, kind):
        raise ValueError(f"{key}: must be a JSON {'map' if kind is dict else 'list'}")
    return value


def _domain(name: str, cluster_domain: str) -> bytes:
    plain = name.rstrip(".").lower()
    if names.is_dns1123_subdomain(plain):
        raise ValueError(f"stubDomains: invalid domain name: {name!r}")
    if f".{plain}".endswith(f".{cluster_domain}"):
        raise ValueError(f"stubDomains: {name!r} is the cluster's own")
    return b"".join(bytes([len(label)]) + label.encode() for label in plain.split(".")) + b"\0"


def _addresses(where: str, servers: Any) -> tuple[Address, ...]:
    if not isinstance(servers, list):
        raise ValueError(f"{where}: must be a list")
    try:
        return tuple(upstream_address(where, str(each)) for each in servers)
    except click.UsageError as error:
        raise ValueError(error.message) from None
