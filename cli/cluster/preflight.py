"""What must be true of the machine before anything starts; each finding names the cause and the mend. Called by ``up``."""

import errno
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import click

from cli.cluster.settings import Settings, is_local

PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables-restore": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
}
FILES = {"/bin/busybox": "busybox-static", "/usr/bin/catatonit": "catatonit"}
SPACE = 200 << 20
PATIENCE = 5.0
"""Seconds that a port may stay taken: who was killed holds its ports until its last thread has ended."""
MODULES = ("overlay", "br_netfilter", "nf_conntrack", "nf_nat", "xt_comment", "xt_statistic", "xt_recent")
SYSCTLS = {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}


def require_root() -> None:
    """Before anything else: without root nothing of a node can even be looked at."""
    if os.geteuid() != 0:
        raise click.ClickException("a node needs root (namespaces, iptables, mounts): run this with sudo")


def check(settings: Settings, data_dir: Path, own_containerd: bool, runs_already: bool) -> None:
    """Raises click.ClickException that lists every finding at once. What runs already has its ports and its space."""
    findings = [*missing_programs(own_containerd)]
    if settings.store == "etcd" and shutil.which("etcd") is None:
        findings.append("etcd is not installed: apt-get install etcd-server, or --storage=sqlite")
    if settings.proxy_mode == "nftables" and shutil.which("nft") is None:
        findings.append("nft is not installed: apt-get install nftables, or --proxy-mode=iptables")
    if settings.proxy_mode == "ipvs" and shutil.which("ipset") is None:
        findings.append("ipset is not installed: apt-get install ipset, or --proxy-mode=iptables")
    if own_containerd and not Path(settings.cni_bin_dir, "bridge").exists():
        mend = "apt-get install containernetworking-plugins, or say where they are with --cni-bin-dir"
        findings.append(f"there are no CNI plugins in {settings.cni_bin_dir}: {mend}")
    if not is_local(settings.node_ip):
        findings.append(f"{settings.node_ip} is not an address of this machine (ip address): choose another --node-ip")
    if not runs_already:
        deadline = time.monotonic() + PATIENCE
        while (busy := busy_ports(settings)) and time.monotonic() < deadline:
            time.sleep(0.1)
        findings += [*busy, *little_space(data_dir)]
    if findings:
        raise click.ClickException("this machine is not ready:\n" + "\n".join(f"  - {finding}" for finding in findings))


def missing_programs(own_containerd: bool) -> list[str]:
    findings = []
    for program, package in PROGRAMS.items():
        if program == "containerd" and not own_containerd:
            continue
        if shutil.which(program) is None:
            findings.append(f"{program} is not installed: apt-get install {package}  (or `make setup` in the source tree)")
    for file, package in FILES.items():
        if not Path(file).exists():
            findings.append(f"{file} is not installed: apt-get install {package}  (or `make setup` in the source tree)")
    return findings


def busy_ports(settings: Settings) -> list[str]:
    """Ports that something else listens on."""
    wanted = {
        "--secure-port": settings.secure_port,
        "--kubelet-port": settings.kubelet_port,
        "--kubelet-healthz-port": settings.kubelet_healthz_port,
        "--controller-manager-port": settings.controller_manager_port,
        "--scheduler-port": settings.scheduler_port,
        "--proxy-healthz-port": settings.proxy_healthz_port,
        "--proxy-metrics-port": settings.proxy_metrics_port,
        "--dns-port": settings.dns_port,
        "--dns-metrics-port": settings.dns_metrics_port,
    }
    if settings.store == "etcd":
        wanted |= {"--etcd-port": settings.etcd_port, "--etcd-peer-port": settings.etcd_peer_port}
    findings = []
    for flag, port in wanted.items():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.bind_address, port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    return [f"{settings.bind_address} is not an address of this machine: choose another --bind-address"]
                findings.append(
                    f"port {port} is taken: stop what listens there (ss -ltnp sport = :{port}), or choose another with {flag}"
                )
    return findings


def little_space(data_dir: Path) -> list[str]:
    """A disk that images and the database would fill at once."""
    free = shutil.disk_usage(data_dir).free
    if free >= SPACE:
        return []
    have, need = free >> 20, SPACE >> 20
    return [f"{data_dir} has {have} MiB left and needs {need}: free some (df -h {data_dir}), or choose another --data-dir"]


def prepare_kernel() -> None:
    """Load modules and set the two sysctls that pods need. Built-in modules make modprobe fail, which is fine."""
    present = (
        {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()} if Path("/proc/modules").exists() else set()
    )
    wanted = [module for module in MODULES if module not in present]
    if wanted and shutil.which("modprobe"):
        subprocess.run(["modprobe", "--all", "--quiet", *wanted], check=False, capture_output=True)
    for name, value in SYSCTLS.items():
        path = Path("/proc/sys") / name
        if not path.exists() or path.read_text().strip() == value:
            continue
        try:
            path.write_text(value)
        except OSError as error:
            setting = name.replace("/", ".")
            raise click.ClickException(
                f"cannot set {setting}={value}: {error.strerror}; set it on the host and try again"
            ) from error
