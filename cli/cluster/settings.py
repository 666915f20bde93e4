"""The choices of `up`: flags now, else what the last `up` of the folder wrote down, else upstream's defaults."""

import ipaddress
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import click

from cli.cluster.checks import check


@dataclass(frozen=True, slots=True)
class Settings:
    """One cluster's flags. ``containerd`` is the endpoint of a runtime that is not ours to start or stop, or ""."""

    node_name: str = ""
    node_ip: str = ""
    containerd: str = ""
    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default: nodes and pods must reach the API server
    secure_port: int = 6443
    kubelet_port: int = 10250
    kubelet_healthz_port: int = 10248
    controller_manager_port: int = 10257
    scheduler_port: int = 10259
    proxy_healthz_port: int = 10256
    proxy_metrics_port: int = 10249
    proxy_mode: str = "iptables"
    dns_port: int = 10053
    dns_metrics_port: int = 9153
    service_cluster_ip_range: str = "10.96.0.0/12"
    service_node_port_range: str = "30000-32767"
    cluster_cidr: str = "10.244.0.0/16"
    cluster_domain: str = "cluster.local"
    bridge: str = "cni0"
    pod_routes: str = "none"  # or "direct"
    cni_bin_dir: str = "/usr/lib/cni"
    cni_conf_dir: str = ""  # where a runtime of somebody else's looks for pod networks; ours looks in the data directory
    storage: str = "sqlite"  # or "etcd": a private one, unless there are servers
    etcd_servers: str = ""  # of an etcd that is not ours to start or stop, comma separated
    etcd_cafile: str = ""
    etcd_certfile: str = ""
    etcd_keyfile: str = ""
    etcd_port: int = 2379
    etcd_peer_port: int = 2380
    sandbox_image: str = ""  # what that runtime starts for a pod; ours is told
    systemd_cgroup: bool = False  # whether that runtime lets systemd make the cgroups; ours does not
    containerd_program: str = "containerd"
    v: int = 2

    @property
    def api_address(self) -> str:
        """Where the daemons' kubeconfigs find the API server; "" before the first `up`."""
        return f"{self.node_ip}:{self.secure_port}" if self.node_ip else ""

    @property
    def store(self) -> str:
        """Where the objects are: "sqlite", "etcd" for a private one, or "etcd servers"."""
        return "etcd servers" if self.etcd_servers else self.storage

    @property
    def own_etcd_url(self) -> str:
        return f"https://127.0.0.1:{self.etcd_port}"

    @property
    def service_ip(self) -> str:
        """The address of the ``kubernetes`` Service: the first of the range."""
        return str(ipaddress.ip_network(self.service_cluster_ip_range)[1])

    @property
    def dns_ip(self) -> str:
        """The address of the ``kube-dns`` Service: the tenth of the range, as kubeadm's."""
        return str(ipaddress.ip_network(self.service_cluster_ip_range)[10])

    @property
    def pod_cidr(self) -> str:
        """The single node's part of the cluster's pod range: its first /24, which the node IPAM controller gives too."""
        network = ipaddress.ip_network(self.cluster_cidr)
        return str(next(network.subnets(new_prefix=max(24, network.prefixlen))))


def resolve(given: Mapping[str, Any], file: Path, tell: Callable[[str], None]) -> Settings:
    """Merge flags (None: not given) over the saved settings over the defaults, and fill in what the machine tells.

    A remembered node address that the machine has lost is replaced by one that it has, and ``tell`` is told.

    Raises click.ClickException when the file is unreadable or a setting makes no sense.
    """
    settings = load(file)
    chosen = {key: value for key, value in given.items() if value is not None}
    if chosen.get("etcd_servers"):
        chosen.setdefault("storage", "etcd")
    elif chosen.get("storage") == "sqlite":
        chosen["etcd_servers"] = ""
    for name in ("etcd_cafile", "etcd_certfile", "etcd_keyfile"):
        if chosen.get(name):
            chosen[name] = str(Path(chosen[name]).expanduser().absolute())
    settings = replace(settings, **chosen)
    if not settings.node_name:
        settings = replace(settings, node_name=socket.gethostname().lower())
    if settings.node_ip and "node_ip" not in chosen and not is_local(settings.node_ip):
        lost, settings = settings.node_ip, replace(settings, node_ip=host_address())
        tell(f"{lost} is no longer an address of this machine: the node moves to {settings.node_ip}")
    if not settings.node_ip:
        settings = replace(settings, node_ip=host_address())
    check(settings)
    return settings


def load(file: Path) -> Settings:
    """What the last `up` saved; the defaults when there was none."""
    try:
        raw = json.loads(file.read_text())
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        raise click.ClickException(f"cannot read {file}: {error}; mend or remove the file") from error
    if not isinstance(raw, dict):
        raise click.ClickException(f"cannot read {file}: it holds no object; mend or remove the file")
    kinds = {item.name: type(item.default) for item in fields(Settings)}
    for key, value in raw.items():
        if key in kinds and type(value) is not kinds[key]:
            raise click.ClickException(f"cannot read {file}: {key} is no {kinds[key].__name__}; mend or remove the file")
    return Settings(**{key: value for key, value in raw.items() if key in kinds})


def save(settings: Settings, file: Path) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(settings), indent=1) + os.linesep)
    temporary.rename(file)


def is_local(address: str) -> bool:
    """Whether the machine has this address: only then can a socket be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def host_address() -> str:
    """The address other machines would use: the source of the default route, else the first global address.

    Raises click.ClickException on a machine with loopback only.
    """
    for target in ("192.0.2.1", "10.255.255.255"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))  # UDP: chooses a source address, sends nothing
                address = str(probe.getsockname()[0])
            except OSError:
                continue
            if not address.startswith("127."):
                return address
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        for message in netlink.get_addr(family=socket.AF_INET):
            address = message.get_attr("IFA_ADDRESS")
            if message["scope"] == 0 and not address.startswith("127."):
                return str(address)
    raise click.ClickException("this machine has no address but loopback; give one to an interface, or name it with --node-ip")
