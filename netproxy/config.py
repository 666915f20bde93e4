"""Flags and upstream's KubeProxyConfiguration file to one frozen Config. Read by ``__main__``."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from component import config, features, flags
from component.featuregates import Gates
from netproxy.backends.ipvs.settings import DEFAULTS, SCHEDULERS, IPVSSettings

MODES = ("iptables", "ipvs", "nftables")
DETECT_LOCAL = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
_REFUSED = {
    "userspace": "the userspace mode was removed from Kubernetes in 1.26",
    "kernelspace": "the kernelspace mode exists on Windows only",
}


@dataclass(frozen=True, slots=True)
class ConntrackSettings:
    """Sizes and seconds of the kernel's connection table; 0 leaves the kernel's own."""

    max_per_core: int = 32768
    minimum: int = 131072
    tcp_established: float = 86400.0
    tcp_close_wait: float = 3600.0
    tcp_be_liberal: bool = False
    udp: float = 0.0
    udp_stream: float = 0.0


@dataclass(frozen=True, slots=True)
class Config:
    """What the proxy was told. Periods in seconds."""

    kubeconfig: str
    node_name: str
    mode: str = "iptables"
    cluster_cidrs: tuple[str, ...] = ()
    detect_local: str = "ClusterCIDR"
    pod_interface: str = ""
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
    conntrack: ConntrackSettings = ConntrackSettings()
    ipvs: IPVSSettings = DEFAULTS
    features: Gates = features.DEFAULTS


# Option, type, and help with the default: a flag that is not given must not hide the configuration file's value.
_FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("--proxy-mode", str, f"Which packet filter to program: {' or '.join(MODES)} [iptables]."),
    ("--cluster-cidr", str, "Range of pod addresses, one per family; tells pods from outsiders."),
    ("--hostname-override", str, "Name of this node's object [the host's name]."),
    ("--healthz-bind-address", str, "Where /healthz answers, empty for nowhere [0.0.0.0:10256]."),
    ("--metrics-bind-address", str, "Where /metrics answers, empty for nowhere [127.0.0.1:10249]."),
    ("--iptables-min-sync-period", flags.DURATION, "Least time between two syncs [1s, and less while syncs are cheap]."),
    ("--iptables-sync-period", flags.DURATION, "How often to look whether the rules are still there [30s]."),
    ("--iptables-masquerade-bit", click.IntRange(0, 31), "Bit of the mark for packets that need SNAT [14]."),
    ("--detect-local-mode", str, f"How pods are told from outsiders: {', '.join(DETECT_LOCAL)} [ClusterCIDR]."),
    ("--pod-bridge-interface", str, "The bridge of the pods, for BridgeInterface."),
    ("--pod-interface-name-prefix", str, "How names of pods' interfaces begin, for InterfaceNamePrefix."),
    ("--conntrack-max-per-core", click.IntRange(0), "Connections to track per CPU core, 0 for the kernel's own [32768]."),
    ("--conntrack-min", click.IntRange(0), "The least to track, whatever the number of cores [131072]."),
    ("--conntrack-tcp-timeout-established", flags.DURATION, "Idle time of TCP connections, 0 for the kernel's own [24h]."),
    ("--conntrack-tcp-timeout-close-wait", flags.DURATION, "The same in CLOSE_WAIT [1h]."),
    ("--conntrack-udp-timeout", flags.DURATION, "Idle time of UDP without an answer, 0 for the kernel's own [0]."),
    ("--conntrack-udp-timeout-stream", flags.DURATION, "The same of UDP with answers [0]."),
    ("--ipvs-scheduler", str, "How virtual servers choose a real server [rr]."),
    ("--ipvs-exclude-cidrs", flags.COMMA_LIST, "Ranges of virtual servers that are not the proxy's to remove."),
    ("--ipvs-tcp-timeout", flags.DURATION, "Idle time of IPVS TCP connections, 0 for the kernel's own [0]."),
    ("--ipvs-tcpfin-timeout", flags.DURATION, "The same after a FIN [0]."),
    ("--ipvs-udp-timeout", flags.DURATION, "The same of UDP [0]."),
    ("--ipvs-min-sync-period", flags.DURATION, "Least time between two syncs in ipvs mode [1s]."),
    ("--ipvs-sync-period", flags.DURATION, "How often to look whether the virtual servers are still there [30s]."),
    ("--nodeport-addresses", flags.COMMA_LIST, "Ranges of addresses with node ports, or primary [all; nftables: primary]."),
)
_SWITCHES: tuple[tuple[str, str], ...] = (
    ("--iptables-localhost-nodeports", "Answer node ports on 127.0.0.1 too [true]."),
    ("--conntrack-tcp-be-liberal", "Accept out-of-window packets, not counting them as INVALID [false]."),
    ("--ipvs-strict-arp", "Do not answer ARP for addresses of Services [false]."),
    ("--masquerade-all", "SNAT all traffic to cluster IPs [false]."),
    ("--cleanup", "Remove the proxy's rules and exit."),
)


# Flags of upstream without a meaning here, so that its command lines work.
_ACCEPTED = ("--bind-address", "--config-sync-period", "--kube-api-burst", "--kube-api-qps", "--oom-score-adj")


def params() -> list[click.Parameter]:
    return [
        flags.kubeconfig(),
        flags.option("--config", type=click.Path(dir_okay=False), help="KubeProxyConfiguration file; flags win over it."),
        *(flags.option(name, type=kind, default=None, show_default=False, help=text) for name, kind, text in _FLAGS),
        *(flags.option(name, default=None, show_default=False, help="Accepted for compatibility.") for name in _ACCEPTED),
        features.flag(),
        *(
            click.Option([name], type=click.BOOL, default=None, is_flag=False, flag_value="true", help=text)
            for name, text in _SWITCHES
        ),
    ]


# Key of the configuration file, dotted, to the option it stands for.
_KEYS = {
    "clientConnection.kubeconfig": "kubeconfig",
    "mode": "proxy_mode",
    "clusterCIDR": "cluster_cidr",
    "hostnameOverride": "hostname_override",
    "healthzBindAddress": "healthz_bind_address",
    "metricsBindAddress": "metrics_bind_address",
    "nodePortAddresses": "nodeport_addresses",
    "detectLocalMode": "detect_local_mode",
    "detectLocal.bridgeInterface": "pod_bridge_interface",
    "detectLocal.interfaceNamePrefix": "pod_interface_name_prefix",
    "conntrack.maxPerCore": "conntrack_max_per_core",
    "conntrack.min": "conntrack_min",
    "conntrack.tcpEstablishedTimeout": "conntrack_tcp_timeout_established",
    "conntrack.tcpCloseWaitTimeout": "conntrack_tcp_timeout_close_wait",
    "conntrack.tcpBeLiberal": "conntrack_tcp_be_liberal",
    "conntrack.udpTimeout": "conntrack_udp_timeout",
    "conntrack.udpStreamTimeout": "conntrack_udp_timeout_stream",
    "syncPeriod": "iptables_sync_period",
    "minSyncPeriod": "iptables_min_sync_period",
    "linux.masqueradeAll": "masquerade_all",
}
# The same for keys under the name of a mode, of which only that of the mode in use counts; the flags have no twins.
_MODE_KEYS = {
    "minSyncPeriod": "iptables_min_sync_period",
    "syncPeriod": "iptables_sync_period",
    "masqueradeBit": "iptables_masquerade_bit",
    "masqueradeAll": "masquerade_all",
    "localhostNodePorts": "iptables_localhost_nodeports",
    "scheduler": "ipvs_scheduler",
    "excludeCIDRs": "ipvs_exclude_cidrs",
    "strictARP": "ipvs_strict_arp",
    "tcpTimeout": "ipvs_tcp_timeout",
    "tcpFinTimeout": "ipvs_tcpfin_timeout",
    "udpTimeout": "ipvs_udp_timeout",
}
# Settings of other modes, or without a meaning here: a kubeadm file names them all, mostly as null or zero.
_IGNORED = (
    "bindAddress",
    "bindAddressHardFail",
    "clientConnection",
    "configSyncPeriod",
    "conntrack",
    "detectLocal",
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


def read(options: Mapping[str, Any]) -> Config:
    """Raises click.UsageError that names the flag or key."""
    given = {key: value for key, value in options.items() if value is not None}
    if given.get("config"):
        file = config.read(given["config"], "KubeProxyConfiguration")
        given = {**_from_file(file, _mode(given.get("proxy_mode") or file.get("mode"))), **given}
    mode = _mode(given.get("proxy_mode"))
    if mode == "ipvs":
        # upstream's flags for the periods have a twin for this mode
        for period in ("sync_period", "min_sync_period"):
            if f"ipvs_{period}" in given:
                given[f"iptables_{period}"] = given[f"ipvs_{period}"]
    if not given.get("kubeconfig") and not given.get("cleanup"):
        raise click.UsageError("--kubeconfig is needed: a file with the API server's address and the proxy's credentials")
    return Config(
        kubeconfig=given.get("kubeconfig") or "",
        node_name=(given.get("hostname_override") or socket.gethostname()).strip().lower(),
        mode=mode,
        cluster_cidrs=_cluster_cidrs(_split(given.get("cluster_cidr"))),
        healthz=_address("--healthz-bind-address", given.get("healthz_bind_address", "0.0.0.0:10256"), 10256),
        metrics=_address("--metrics-bind-address", given.get("metrics_bind_address", "127.0.0.1:10249"), 10249),
        min_sync_period=float(given.get("iptables_min_sync_period", 1.0)),
        min_sync_given="iptables_min_sync_period" in given,
        sync_period=_positive("--iptables-sync-period", given.get("iptables_sync_period", 30.0)),
        masquerade_all=bool(given.get("masquerade_all")),
        masquerade_bit=int(given.get("iptables_masquerade_bit", 14)),
        localhost_node_ports=bool(given.get("iptables_localhost_nodeports", True)),
        node_port_addresses=_node_port_addresses(given.get("nodeport_addresses", ()), mode),
        cleanup=bool(given.get("cleanup")),
        ipvs=_ipvs(given),
        features=_features(given),
        **_detect_local(given),
        conntrack=ConntrackSettings(
            max_per_core=int(given.get("conntrack_max_per_core", 32768)),
            minimum=int(given.get("conntrack_min", 131072)),
            tcp_established=float(given.get("conntrack_tcp_timeout_established", 86400)),
            tcp_close_wait=float(given.get("conntrack_tcp_timeout_close_wait", 3600)),
            tcp_be_liberal=bool(given.get("conntrack_tcp_be_liberal")),
            udp=float(given.get("conntrack_udp_timeout", 0)),
            udp_stream=float(given.get("conntrack_udp_timeout_stream", 0)),
        ),
    )


def _mode(given: Any) -> str:
    mode = given or "iptables"
    if mode in _REFUSED:
        raise click.UsageError(f"--proxy-mode: {_REFUSED[mode]}; use one of: {', '.join(MODES)}")
    if mode not in MODES:
        must = f"must be {','.join(MODES)} or blank (blank means the best-available proxy [currently iptables])"
        raise click.UsageError(f'--proxy-mode: Invalid value: "{mode}": {must}')
    return str(mode)


def _ipvs(given: Mapping[str, Any]) -> IPVSSettings:
    scheduler = str(given.get("ipvs_scheduler") or "rr")
    if scheduler not in SCHEDULERS:
        raise click.UsageError(f"--ipvs-scheduler: {scheduler!r} is not a scheduler; use one of: {', '.join(SCHEDULERS)}")
    return IPVSSettings(
        scheduler,
        strict_arp=bool(given.get("ipvs_strict_arp")),
        exclude_cidrs=tuple(_network("--ipvs-exclude-cidrs", each) for each in given.get("ipvs_exclude_cidrs") or ()),
        tcp_timeout=float(given.get("ipvs_tcp_timeout", 0)),
        tcp_fin_timeout=float(given.get("ipvs_tcpfin_timeout", 0)),
        udp_timeout=float(given.get("ipvs_udp_timeout", 0)),
    )


def _features(given: Mapping[str, Any]) -> Gates:
    """The flag's, and those of the file that the flag does not name."""
    flag: Gates = given.get("feature_gates", features.DEFAULTS)
    of_file = given.get("feature_gates_of_file") or {}
    wishes = {**of_file, **flag.values}
    try:
        return features.from_flag({name: str(value).lower() for name, value in wishes.items()})
    except ValueError as error:
        raise click.UsageError(f"featureGates: {error}") from None


def _detect_local(given: Mapping[str, Any]) -> dict[str, str]:
    mode = given.get("detect_local_mode") or "ClusterCIDR"
    if mode not in DETECT_LOCAL:
        raise click.UsageError(f"--detect-local-mode: {mode!r} is not a mode; use one of: {', '.join(DETECT_LOCAL)}")
    flag = {"BridgeInterface": "--pod-bridge-interface", "InterfaceNamePrefix": "--pod-interface-name-prefix"}.get(mode, "")
    interface = str(given.get(flag.removeprefix("--").replace("-", "_")) or "")
    if flag and (not interface or len(interface) > 15 or not interface.isascii() or any(c in ' /+!"' for c in interface)):
        raise click.UsageError(f"--detect-local-mode={mode} needs the name of an interface in {flag}, not {interface!r}")
    return {"detect_local": mode, "pod_interface": f"{interface}+" if mode == "InterfaceNamePrefix" else interface}


def _from_file(settings: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Options by name. A period of zero stands for the default there, as null does."""
    by_name = {param.name: param for param in params()}
    found: dict[str, Any] = {}
    found["feature_gates_of_file"] = settings.get("featureGates") or {}
    for key, value in _flattened(settings):
        section, _, rest = key.partition(".")
        option = _MODE_KEYS.get(rest) if section == mode else _KEYS.get(key)
        if option is None:
            if section not in _IGNORED:
                raise click.UsageError(f"unknown key {key!r} in the configuration file; known are {', '.join(sorted(_KEYS))}")
        elif value not in (None, "") and not (option.endswith("_period") and str(value) in ("0", "0s")):
            found[option] = by_name[option].type.convert(value, by_name[option], None)
    return found


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


def _cluster_cidrs(given: list[str]) -> tuple[str, ...]:
    networks = tuple(_network("--cluster-cidr", each) for each in given)
    if len({":" in each for each in networks}) < len(networks):
        text = "only one CIDR allowed or a valid DualStack CIDR (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)"
        raise click.UsageError(f"--cluster-cidr: {text}")
    return networks


def _node_port_addresses(given: Any, mode: str) -> tuple[str, ...]:
    """Upstream's nftables mode answers on the node's own address alone unless it is told otherwise."""
    each = tuple(given) or (("primary",) if mode == "nftables" else ())
    if "primary" in each and len(each) > 1:
        raise click.UsageError("--nodeport-addresses: primary cannot be combined with ranges")
    return tuple(item if item == "primary" else _network("--nodeport-addresses", item) for item in each)


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


def _positive(flag: str, seconds: Any) -> float:
    value = float(seconds)
    if value <= 0:
        raise click.UsageError(f"{flag}: must be greater than 0")
    return value
