"""Flags of ``pybernetes dns`` to one frozen Config. Read by ``__main__``."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from apimachinery import names
from component import flags
from netproxy.dns.responder import Network
from netproxy.dns.upstream import Address


@dataclass(frozen=True, slots=True)
class Config:
    """What the server was told. TTLs in seconds."""

    kubeconfig: str
    node_name: str
    domain: str = "cluster.local"
    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 53
    advertise: str = ""
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    upstreams: tuple[Address, ...] = ()
    allowed: tuple[Network, ...] = ()
    metrics: tuple[str, int] | None = ("127.0.0.1", 9153)
    ttl: int = 30
    cache_size: int = 9984
    cache_ttl: int = 30
    concurrent: int = 1000
    serve_stale: int = 3600
    prefetch: int = 10


def params() -> list[click.Parameter]:
    option = flags.option
    return [
        flags.kubeconfig(),
        option("--hostname-override", default=None, help="Name of this node's object [the host's name]."),
        option("--cluster-domain", default="cluster.local", help="The domain whose names are answered from the cluster."),
        option("--bind-address", type=flags.COMMA_LIST, default="127.0.0.1", help="Addresses to answer on."),
        option("--port", type=flags.PORT, default=53, help="Port to answer on, by UDP and TCP."),
        option(
            "--advertise-address",
            default="",
            help="Address of this node that the Service kube-system/kube-dns leads to; empty: the Service does not lead here.",
        ),
        option(
            "--resolv-conf",
            default="/etc/resolv.conf",
            help="File with the resolvers for all other names, read again when it changes; empty for none.",
        ),
        option(
            "--upstream", type=flags.COMMA_LIST, default="", help="Resolvers (address or address:port) in place of the file's."
        ),
        option(
            "--allow-from", type=flags.COMMA_LIST, default="", help="Ranges that may ask; everybody else is refused [everybody]."
        ),
        option("--metrics-bind-address", default="127.0.0.1:9153", help="Where /metrics and health answer, empty for nowhere."),
        option("--ttl", type=click.IntRange(0, 3600), default=30, help="Seconds that clients may keep the cluster's answers."),
        option("--cache-size", type=click.IntRange(1, 1_000_000), default=9984, help="Answers of resolvers to keep."),
        option("--cache-ttl", type=click.IntRange(1, 3600), default=30, help="Seconds that one is kept at most."),
        option(
            "--serve-stale",
            type=click.IntRange(0, 604_800),
            default=3600,
            help="Seconds that an answer serves after its time when no resolver gives a new one; 0 for never.",
        ),
        option(
            "--prefetch",
            type=click.IntRange(0, 1_000_000),
            default=10,
            help="Hits for which an answer is fetched anew before its time ends; 0 for never.",
        ),
        option("--max-concurrent", type=click.IntRange(1, 100_000), default=1000, help="Questions that may wait for resolvers."),
    ]


def read(options: Mapping[str, Any]) -> Config:
    """Raises click.UsageError that names the flag."""
    if not options.get("kubeconfig"):
        raise click.UsageError("--kubeconfig is needed: a file with the API server's address and the server's credentials")
    domain = str(options["cluster_domain"]).rstrip(".").lower()
    if wrong := names.is_dns1123_subdomain(domain):
        raise click.UsageError(f"--cluster-domain {domain!r}: {wrong[0]}")
    hosts = tuple(_ip("--bind-address", each) for each in options["bind_address"])
    if not hosts:
        raise click.UsageError("--bind-address: name at least one address")
    advertise = str(options["advertise_address"])
    if advertise:
        address = ipaddress.ip_address(_ip("--advertise-address", advertise))
        if address.is_loopback or address.is_link_local or address.is_unspecified:
            raise click.UsageError(f"--advertise-address: {advertise} cannot be reached from pods")
    resolv_conf = str(options["resolv_conf"])
    return Config(
        kubeconfig=options["kubeconfig"],
        node_name=(options.get("hostname_override") or socket.gethostname()).strip().lower(),
        domain=domain,
        hosts=tuple(dict.fromkeys(hosts)),
        port=options["port"],
        advertise=advertise,
        resolv_conf=Path(resolv_conf) if resolv_conf else None,
        upstreams=tuple(upstream_address("--upstream", each) for each in options["upstream"]),
        allowed=tuple(_network("--allow-from", each) for each in options["allow_from"]),
        metrics=_host_port("--metrics-bind-address", str(options["metrics_bind_address"])),
        ttl=options["ttl"],
        cache_size=options["cache_size"],
        cache_ttl=options["cache_ttl"],
        concurrent=options["max_concurrent"],
        serve_stale=options["serve_stale"],
        prefetch=options["prefetch"],
    )


def resolvers_of(text: str) -> list[Address]:
    """The ``nameserver`` lines of a resolv.conf(5); lines that name no address are passed over."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            ipaddress.ip_address(words[1])
        except ValueError:
            continue
        found.append(Address(words[1]))
    return found


def upstream_address(flag: str, text: str) -> Address:
    """``address`` or ``address:port``; with a port, IPv6 stands in brackets. Raises click.UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return Address(_ip(flag, text.strip("[]")))
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{flag}: {text!r} must have the form address or address:port")
    return Address(_ip(flag, host.strip("[]")), int(port))


def _host_port(flag: str, text: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{flag}: {text!r} must have the form address:port")
    return _ip(flag, host.strip("[]")), int(port)


def _ip(flag: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}") from None


def _network(flag: str, text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}") from None
