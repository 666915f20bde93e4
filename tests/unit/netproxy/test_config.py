"""Flags and configuration file: defaults, which of the two wins, and what is refused by name."""

from pathlib import Path
from typing import Any

import click
import pytest

from netproxy import config
from netproxy.backends.ipvs.settings import IPVSSettings

# What `kubeadm init` writes, apart from the values that matter here.
KUBEADM = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection: {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: /etc/proxy.conf, qps: 0}
clusterCIDR: 10.1.0.0/16
configSyncPeriod: 0s
conntrack: {maxPerCore: null, min: null, tcpBeLiberal: false}
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables: {localhostNodePorts: null, masqueradeAll: true, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 10s}
ipvs: {excludeCIDRs: null, strictARP: false}
logging: {flushFrequency: 0, verbosity: 0}
metricsBindAddress: ""
mode: ""
nftables: {masqueradeAll: false, minSyncPeriod: 0s}
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel: {enableDSR: false}
"""


def _read(*arguments: str) -> config.Config:
    context = click.Command("proxy", params=config.params()).make_context("proxy", list(arguments))
    return config.read(context.params)


def test_defaults_are_upstreams() -> None:
    found = _read("--kubeconfig=k")
    assert (found.mode, found.healthz, found.metrics) == ("iptables", ("0.0.0.0", 10256), ("127.0.0.1", 10249))
    assert (found.min_sync_period, found.sync_period, found.masquerade_bit) == (1.0, 30.0, 14)
    assert (found.masquerade_all, found.localhost_node_ports, found.node_port_addresses) == (False, True, ())


def test_a_kubeadm_file_is_read_and_flags_win_over_it(tmp_path: Path) -> None:
    file = tmp_path / "config.conf"
    file.write_text(KUBEADM)
    found = _read(f"--config={file}")
    assert (found.kubeconfig, found.cluster_cidrs, found.masquerade_all) == ("/etc/proxy.conf", ("10.1.0.0/16",), True)
    assert (found.sync_period, found.min_sync_period, found.min_sync_given) == (10.0, 1.0, False)
    found = _read(f"--config={file}", "--cluster-cidr=10.2.0.0/16", "--masquerade-all=false")
    assert (found.cluster_cidrs, found.masquerade_all) == (("10.2.0.0/16",), False)


def test_settings_of_ipvs_come_from_flags_or_the_file(tmp_path: Path) -> None:
    found = _read("--kubeconfig=k", "--proxy-mode=ipvs", "--ipvs-exclude-cidrs=10.0.0.7/8,fd00::/8", "--ipvs-sync-period=5s")
    assert (found.ipvs.scheduler, found.ipvs.exclude_cidrs, found.sync_period) == ("rr", ("10.0.0.0/8", "fd00::/8"), 5.0)
    file = tmp_path / "config.conf"
    ipvs = "{excludeCIDRs: [10.0.0.0/8], strictARP: true, scheduler: lc, tcpTimeout: 1m, syncPeriod: 7s}"
    file.write_text(KUBEADM.replace('mode: ""', "mode: ipvs").replace("{excludeCIDRs: null, strictARP: false}", ipvs))
    found = _read(f"--config={file}", "--ipvs-scheduler=sh")
    assert found.ipvs == IPVSSettings("sh", strict_arp=True, exclude_cidrs=("10.0.0.0/8",), tcp_timeout=60.0)
    assert (found.mode, found.sync_period) == ("ipvs", 7.0)


REFUSED: dict[str, tuple[list[str], str]] = {
    "no kubeconfig": ([], "--kubeconfig is needed"),
    "scheduler": (["--kubeconfig=k", "--proxy-mode=ipvs", "--ipvs-scheduler=best"], "'best' is not a scheduler"),
    "nonsense mode": (
        ["--kubeconfig=k", "--proxy-mode=x"],
        r'Invalid value: "x": must be iptables,ipvs,nftables or blank \(blank means',
    ),
    "range": (["--kubeconfig=k", "--cluster-cidr=10.0.0.0/40"], "--cluster-cidr"),
    "two ranges of one family": (["--kubeconfig=k", "--cluster-cidr=10.0.0.0/16,10.1.0.0/16"], "valid DualStack CIDR"),
    "address": (["--kubeconfig=k", "--healthz-bind-address=1.2.3.4:x"], "--healthz-bind-address"),
    "period": (["--kubeconfig=k", "--iptables-sync-period=0"], "--iptables-sync-period"),
    "local mode": (["--kubeconfig=k", "--detect-local-mode=x"], "--detect-local-mode"),
    "no bridge": (["--kubeconfig=k", "--detect-local-mode=BridgeInterface"], "--pod-bridge-interface"),
    "primary": (["--kubeconfig=k", "--nodeport-addresses=primary,10.0.0.0/8"], "primary cannot be combined"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused_by_name(case: tuple[list[str], str]) -> None:
    with pytest.raises(click.UsageError, match=case[1]):
        _read(*case[0])


def test_the_section_of_the_mode_in_use_counts(tmp_path: Path) -> None:
    file = tmp_path / "config.conf"
    file.write_text(KUBEADM.replace('mode: ""', "mode: nftables").replace("nftables: {", "nftables: {masqueradeBit: 7, "))
    found = _read(f"--config={file}")
    assert (found.mode, found.masquerade_bit, found.masquerade_all, found.sync_period) == ("nftables", 7, False, 30.0)
    assert found.node_port_addresses == ("primary",)
    found = _read(f"--config={file}", "--proxy-mode=iptables")
    assert (found.mode, found.masquerade_bit, found.masquerade_all, found.sync_period) == ("iptables", 14, True, 10.0)
    assert found.node_port_addresses == ()


def test_a_misspelt_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.conf"
    file.write_text("kind: KubeProxyConfiguration\nclusterCidr: 10.0.0.0/8\n")
    with pytest.raises(click.UsageError, match="clusterCidr"):
        _read(f"--config={file}")


ADDRESSES: dict[str, Any] = {
    "127.0.0.1:1": ("127.0.0.1", 1),
    "127.0.0.1": ("127.0.0.1", 10256),
    "[::1]:2": ("::1", 2),
    "::": ("::", 10256),
    ":3": ("0.0.0.0", 3),
    "": None,
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_bind_addresses(text: str) -> None:
    assert _read("--kubeconfig=k", f"--healthz-bind-address={text}").healthz == ADDRESSES[text]


def test_a_range_for_each_family() -> None:
    assert _read("--kubeconfig=k", "--cluster-cidr=10.1.0.0/16, fd00::/48").cluster_cidrs == ("10.1.0.0/16", "fd00::/48")


def test_local_modes() -> None:
    bridge = _read("--kubeconfig=k", "--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0")
    prefix = _read("--kubeconfig=k", "--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth")
    assert (bridge.pod_interface, prefix.pod_interface) == ("cni0", "veth+")
