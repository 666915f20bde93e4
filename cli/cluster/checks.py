"""Whether the flags of `up` make sense, alone and together, before anything is remembered or started. Pure."""

import ipaddress
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from apimachinery import names

if TYPE_CHECKING:
    from cli.cluster.settings import Settings

PORTS = (
    "secure_port",
    "kubelet_port",
    "kubelet_healthz_port",
    "controller_manager_port",
    "scheduler_port",
    "proxy_healthz_port",
    "proxy_metrics_port",
    "dns_port",
    "dns_metrics_port",
)
ETCD_PORTS = ("etcd_port", "etcd_peer_port")  # of a private one
_INTERFACE = re.compile(r"[^\s/:]{1,15}")  # the kernel's rule
_PORT_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")


def check(settings: "Settings") -> None:
    """Raises click.ClickException that names every flag that cannot be used."""
    findings = [*_names(settings), *_addresses(settings), *_ports(settings), *_store(settings)]
    if findings:
        raise click.ClickException(
            findings[0] if len(findings) == 1 else "\n  - ".join(["these flags make no sense:", *findings])
        )


def _names(settings: "Settings") -> Iterator[str]:
    for flag, text in (("--node-name", settings.node_name), ("--cluster-domain", settings.cluster_domain)):
        if wrong := names.is_dns1123_subdomain(text):
            yield f"{flag} {text!r}: {wrong[0]}"
    if not _INTERFACE.fullmatch(settings.bridge) or settings.bridge in (".", ".."):
        yield f"--bridge {settings.bridge!r}: an interface's name has 1 to 15 characters, no slash, colon or space"


def _addresses(settings: "Settings") -> Iterator[str]:
    for flag, text in (("--node-ip", settings.node_ip), ("--bind-address", settings.bind_address)):
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            yield f"{flag}: {error}"
    networks = []
    ranges = {"--service-cluster-ip-range": settings.service_cluster_ip_range, "--cluster-cidr": settings.cluster_cidr}
    for flag, text in ranges.items():
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield f"{flag}: {error}; give a range such as 10.96.0.0/12"
            continue
        if network.version != 4 or network.prefixlen > 28:
            yield f"{flag} {text}: give an IPv4 range of 16 addresses or more"
        networks.append(network)
    if len(networks) == 2 and networks[0].overlaps(networks[1]):
        yield f"--service-cluster-ip-range {networks[0]} and --cluster-cidr {networks[1]} overlap: choose ranges that do not"


def _store(settings: "Settings") -> Iterator[str]:
    given = [
        f"--{name.replace('_', '-')}" for name in ("etcd_cafile", "etcd_certfile", "etcd_keyfile") if getattr(settings, name)
    ]
    if settings.storage == "sqlite" and settings.etcd_servers:
        yield "--storage=sqlite and --etcd-servers exclude each other"
    elif given and not settings.etcd_servers:
        yield f"{' and '.join(given)}: a private etcd has keys of its own; name the servers that want these with --etcd-servers"
    elif bool(settings.etcd_certfile) != bool(settings.etcd_keyfile):
        yield "--etcd-certfile and --etcd-keyfile go together"


def _ports(settings: "Settings") -> Iterator[str]:
    by_port: dict[int, list[str]] = {}
    for name in (*PORTS, *(ETCD_PORTS if settings.store == "etcd" else ())):
        by_port.setdefault(getattr(settings, name), []).append(f"--{name.replace('_', '-')}")
    for port, flags in by_port.items():
        if len(flags) > 1:
            yield f"{' and '.join(flags)} are both {port}: each needs a port of its own"
    match = _PORT_RANGE.fullmatch(settings.service_node_port_range)
    if not match or not 0 < int(match[1]) <= int(match[2]) <= 65535:
        yield f"--service-node-port-range {settings.service_node_port_range!r}: write two ports, such as 30000-32767"
        return
    for port, flags in by_port.items():
        if int(match[1]) <= port <= int(match[2]):
            yield f"{flags[0]} {port} lies in --service-node-port-range {match[0]}: a Service could take it"
