"""Flags and upstream's KubeProxyConfiguration file to one frozen Config. Read by ``__main__``."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from component import config, flags

MODES = ("iptables",)
_REFUSED = {
    "ipvs": "the ipvs mode is not implemented",
    "nftables": "the nftables mode is not implemented",
    "userspace": "the userspace mode was removed from Kubernetes in 1.26",
    "kernelspace": "the kernelspace mode exists on Windows only",
}


@dataclass(frozen=True, slots=True)
class Config:
    """What the proxy was told. Periods in seconds."""

    kubeconfig: str
    node_name: str
    mode: str = "iptables"
    cluster_cidrs: tuple[str, ...] = ()
    healthz: tuple[str, int] | None = ("0.0.0.0", 10256)  # noqa: S104 - balancers ask from outside
    metrics: tuple[str, int] | None = ("127.0.0.1", 10249)
    min_sync_period: float = 1.0
    min_sync_given: bool = False
    sync_period: float = 30.0
    masquerade_all: bool = False
    masquerade_bit: int = 14
    localhost_node_ports: bool = True
    node_port_addresses: tuple[str, ...] = ()
    cleanup: bool = False


def params() -> list[click.Parameter]:
    return [
        flags.kubeconfig(),
        flags.option("--config", type=click.Path(dir_okay=False), help="KubeProxyConfiguration file; flags win over it."),
        flags.option("--proxy-mode", default="iptables", help="Which packet filter to program: iptables."),
        flags.option("--cluster-cidr", default="", help="Range of pod addresses, one per family; tells pods from outsiders."),
        flags.option("--hostname-override", default="", help="Name of this node's object; the host's name by default."),
        flags.option("--healthz-bind-address", default="0.0.0.0:10256", help="Where /healthz answers; empty for nowhere."),
        flags.option("--metrics-bind-address", default="127.0.0.1:10249", help="Where /metrics answers; empty for nowhere."),
        flags.option(
            "--iptables-min-sync-period",
            type=flags.DURATION,
            default=None,
            show_default=False,
            help="Least time between two syncs [1s, and less while syncs are cheap].",
        ),
        flags.option("--iptables-sync-period", type=flags.DURATION, default="30s", help="How often to look after the rules."),
        flags.option("--iptables-masquerade-bit", type=click.IntRange(0, 31), default=14, help="Bit of the mark for SNAT."),
        flags.switch("--iptables-localhost-nodeports", True, "Answer node ports on 127.0.0.1 too."),
        flags.switch("--masquerade-all", False, "SNAT all traffic to cluster IPs."),
        flags.option("--nodeport-addresses", type=flags.COMMA_LIST, default="", help="Ranges with node ports, or primary."),
        flags.switch("--cleanup", False, "Remove the proxy's rules and exit."),
    ]


# Key of the configuration file, dotted, to the option it stands for.
_KEYS = {
    "clientConnection.kubeconfig": "kubeconfig",
    "mode": "proxy_mode",
    "clusterCIDR": "cluster_cidr",
    "hostnameOverride": "hostname_override",
    "healthzBindAddress": "healthz_bind_address",
    "metricsBindAddress": "metrics_bind_address",
    "iptables.minSyncPeriod": "iptables_min_sync_period",
    "iptables.syncPeriod": "iptables_sync_period",
    "iptables.masqueradeBit": "iptables_masquerade_bit",
    "iptables.masqueradeAll": "masquerade_all",
    "iptables.localhostNodePorts": "iptables_localhost_nodeports",
    "nodePortAddresses": "nodeport_addresses",
    "syncPeriod": "iptables_sync_period",
    "minSyncPeriod": "iptables_min_sync_period",
    "linux.masqueradeAll": "masquerade_all",
}
# Settings of other modes, or without a meaning here: a kubeadm file names them all, mostly as null or zero.
_IGNORED = (
    "bindAddress",
    "bindAddressHardFail",
    "clientConnection",
    "configSyncPeriod",
    "conntrack",
    "detectLocal",
    "detectLocalMode",
    "enableProfiling",
    "featureGates",
    "ipvs",
    "linux",
    "iptables",
    "logging",
    "nftables",
    "oomScoreAdj",
    "portRange",
    "showHiddenMetricsForVersion",
    "udpIdleTimeout",
    "winkernel",
    "windows",
)


def read(options: Mapping[str, Any], context: click.Context | None = None) -> Config:
    """Raises click.UsageError that names the flag or key."""
    chosen = dict(options)
    if options.get("config"):
        _merge(chosen, config.read(options["config"], "KubeProxyConfiguration"), context)
    mode = chosen.get("proxy_mode") or "iptables"
    if mode not in MODES:
        raise click.UsageError(f"--proxy-mode: {_REFUSED.get(mode, f'{mode!r} is not a mode')}; use one of: {', '.join(MODES)}")
    if not chosen.get("kubeconfig") and not chosen.get("cleanup"):
        raise click.UsageError("--kubeconfig is needed: a file with the API server's address and the proxy's credentials")
    minimum = chosen.get("iptables_min_sync_period")
    return Config(
        kubeconfig=chosen.get("kubeconfig") or "",
        node_name=(chosen.get("hostname_override") or socket.gethostname()).strip().lower(),
        mode=mode,
        cluster_cidrs=tuple(_network("--cluster-cidr", each) for each in _split(chosen.get("cluster_cidr"))),
        healthz=_address("--healthz-bind-address", chosen.get("healthz_bind_address"), 10256),
        metrics=_address("--metrics-bind-address", chosen.get("metrics_bind_address"), 10249),
        min_sync_period=1.0 if minimum is None else float(minimum),
        min_sync_given=minimum is not None,
        sync_period=_positive("--iptables-sync-period", chosen.get("iptables_sync_period"), 30.0),
        masquerade_all=bool(chosen.get("masquerade_all")),
        masquerade_bit=int(chosen.get("iptables_masquerade_bit", 14)),
        localhost_node_ports=bool(chosen.get("iptables_localhost_nodeports", True)),
        node_port_addresses=_node_port_addresses(chosen.get("nodeport_addresses") or ()),
        cleanup=bool(chosen.get("cleanup")),
    )


def _merge(chosen: dict[str, Any], settings: Mapping[str, Any], context: click.Context | None) -> None:
    by_name = {param.name: param for param in params()}
    for key, value in _flattened(settings):
        option = _KEYS.get(key)
        if option is None:
            if key.partition(".")[0] not in _IGNORED:
                raise click.UsageError(f"unknown key {key!r} in the configuration file; known are {', '.join(sorted(_KEYS))}")
            continue
        given = context is not None and context.get_parameter_source(option) == click.core.ParameterSource.COMMANDLINE
        if value is not None and value != "" and not given:
            chosen[option] = by_name[option].type.convert(value, by_name[option], context)


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        found += _flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return found


def _split(text: Any) -> list[str]:
    return [each.strip() for each in str(text or "").split(",") if each.strip()]


def _network(flag: str, text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}") from None


def _node_port_addresses(given: Any) -> tuple[str, ...]:
    each = tuple(given)
    if "primary" in each and len(each) > 1:
        raise click.UsageError("--nodeport-addresses: primary cannot be combined with ranges")
    networks = tuple(item if item == "primary" else _network("--nodeport-addresses", item) for item in each)
    return () if any(network in ("0.0.0.0/0", "::/0") for network in networks) else networks


def _address(flag: str, text: Any, default_port: int) -> tuple[str, int] | None:
    """``host:port``, ``[v6]:port`` or a host alone."""
    value = str(text or "").strip()
    if not value:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = value, str(default_port)
    if not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{flag}: {value!r} must have the form address:port")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as written by the operator


def _positive(flag: str, seconds: Any, default: float) -> float:
    value = default if seconds is None else float(seconds)
    if value <= 0:
        raise click.UsageError(f"{flag}: must be greater than 0")
    return value
