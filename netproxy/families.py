"""The address families of this host and a backend for each. Called by ``__main__``, which gives each a proxier of its own."""

import os
from collections.abc import Mapping, Sequence

from component import logs
from component.errors import OperatorError
from component.process import Runner
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.options import Options, node_port_addresses, of_family
from netproxy.config import Config
from netproxy.kernel import iptables
from netproxy.kernel.sysctl import RealSysctl, Sysctl
from netproxy.trackers.services import Family
from netproxy.tuning import tune_conntrack

_log = logs.get(__name__)
FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


async def make_backends(settings: Config, runner: Runner, pod_ranges: Sequence[str]) -> Mapping[Family, IPTablesBackend]:
    """A backend for each family that this host can serve, after its connection table was set up. As upstream's, it does not
    matter whether the cluster uses the family: an unused one costs nothing.

    :raises OperatorError: when there is none.
    """
    sysctl = RealSysctl()
    tune_conntrack(sysctl, settings.conntrack, os.cpu_count() or 1)
    made: dict[Family, IPTablesBackend] = {}
    for family in FAMILIES:
        mode = await _usable(runner, family, sysctl)
        if mode is None:
            _log.info("No iptables support for family", ipFamily=family)
            continue
        options = options_for(family, settings, pod_ranges, sysctl)
        _log.info(
            "Using iptables", ipFamily=family, variant=mode or "default", pods=options.cluster_cidr or options.pod_interface
        )
        made[family] = IPTablesBackend(iptables.RealIPTables(runner, family, mode), sysctl, options)
    if not made:
        raise OperatorError(
            "iptables is not available on this host: install the package iptables, or correct PATH (it needs /usr/sbin)"
        )
    if not any(backend.options.knows_pods for backend in made.values()):
        _log.warning("Without --cluster-cidr pods cannot be told from outsiders, whose calls to cluster IPs are not answered")
    return made


def options_for(family: Family, settings: Config, pod_ranges: Sequence[str], sysctl: Sysctl) -> Options:
    return Options(
        family=family,
        cluster_cidr=next(iter(of_family(pod_ranges, family)), ""),
        pod_interface=settings.pod_interface,
        masquerade_all=settings.masquerade_all,
        masquerade_bit=settings.masquerade_bit,
        node_port_addresses=node_port_addresses(settings.node_port_addresses, family),
        localhost_node_ports=settings.localhost_node_ports,
        drop_invalid=sysctl.get("net/netfilter/nf_conntrack_tcp_be_liberal") != "1",
    )


async def _usable(runner: Runner, family: Family, sysctl: Sysctl) -> iptables.Mode | None:
    """Which iptables to use for the family; None when its tools or the kernel's part of it are missing."""
    if not iptables.available(family) or (family == "IPv6" and sysctl.get("net/ipv6/conf/all/forwarding") is None):
        return None
    mode = await iptables.detect(runner, family)
    try:
        return mode if await iptables.RealIPTables(runner, family, mode).has_chain("nat", "POSTROUTING") else None
    except iptables.IPTablesError as error:
        _log.warning("Cannot use the iptables of a family", ipFamily=family, err=error)
        return None
