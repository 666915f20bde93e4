"""The address families of this host and a backend for each. Called by ``__main__``, which gives each a proxier of its own."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from component import logs
from component.clock import Clock
from component.errors import OperatorError
from component.process import ProcessError, Runner
from netproxy.backends.interface import Backend
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.ipvs import IPVSBackend, Kernel
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.nftables import NFTablesBackend
from netproxy.backends.options import Options, node_port_addresses, of_family
from netproxy.config import Config
from netproxy.kernel import ipset, iptables, nft
from netproxy.kernel.addresses import RealLocalAddresses
from netproxy.kernel.ipvs import Call, IPVSError, RealIPVS, Server, Settings
from netproxy.kernel.sysctl import Sysctl
from netproxy.trackers.services import Family
from netproxy.tuning import tune_conntrack

_log = logs.get(__name__)
FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")
_LEAST_NFT = (1, 0, 1)
_LEAST_KERNEL = (5, 13)
_LEAST_IPSET = (6, 0)
_SKIP_KERNEL_CHECK = "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"


@dataclass(frozen=True, slots=True)
class Host:
    """What backends need of this process. ``on_cleanup_failure`` is told the family of chains that could not be deleted."""

    sysctl: Sysctl
    clock: Clock
    on_cleanup_failure: Callable[[Family], object]


async def make_backends(settings: Config, runner: Runner, pod_ranges: Sequence[str], host: Host) -> Mapping[Family, Backend]:
    """A backend for each family that this host can serve, after its connection table was set up. As upstream's, it does not
    matter whether the cluster uses the family: an unused one costs nothing.

    :raises OperatorError: when there is none.
    """
    tune_conntrack(host.sysctl, settings.conntrack, os.cpu_count() or 1)
    if settings.mode == "nftables":
        await _require_nftables(runner)
    if settings.mode == "ipvs":
        await require_ipvs(runner, settings.ipvs)
    made: dict[Family, Backend] = {}
    for family in FAMILIES:
        options = options_for(family, settings, pod_ranges, host.sysctl)
        backend = await _backend(settings, runner, options, host)
        if backend is None:
            _log.info(f"No {settings.mode} support for family", ipFamily=family)
            continue
        _log.info("Programming", ipFamily=family, mode=settings.mode, pods=options.cluster_cidr or options.pod_interface)
        made[family] = backend
    if not made:
        tool = "iptables" if settings.mode == "ipvs" else settings.mode
        needed = f"{tool} (required for IPVS)" if settings.mode == "ipvs" else tool
        raise OperatorError(
            f"{needed} is not available on this host: install the package {tool}, or correct PATH (it needs /usr/sbin)"
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


async def _backend(settings: Config, runner: Runner, options: Options, host: Host) -> Backend | None:
    """None when the family's tools or the kernel's part of it are missing."""
    if settings.mode == "nftables":
        return await _nftables(runner, options, host)
    tables = await _iptables(runner, options, host)
    if tables is None:
        return None
    if settings.mode == "iptables":
        return IPTablesBackend(tables, host.sysctl, options)
    family, wanted = options.family, settings.ipvs
    excluded = replace(wanted, exclude_cidrs=of_family(wanted.exclude_cidrs, family))
    kernel = Kernel(RealIPVS(family), ipset.RealIPSets(runner, family), tables, RealLocalAddresses(family), host.sysctl)
    return IPVSBackend(kernel, options, excluded, host.clock)


async def _iptables(runner: Runner, options: Options, host: Host) -> iptables.RealIPTables | None:
    family = options.family
    if not iptables.available(family) or not _kernel_has(family, host.sysctl):
        return None
    mode = await iptables.detect(runner, family)
    tables = iptables.RealIPTables(runner, family, mode)
    try:
        if not await tables.has_chain("nat", "POSTROUTING"):
            return None
    except iptables.IPTablesError as error:
        _log.warning("Cannot use the iptables of a family", ipFamily=family, err=error)
        return None
    _log.info("Using iptables", ipFamily=family, variant=mode or "default")
    return tables


async def _nftables(runner: Runner, options: Options, host: Host) -> Backend | None:
    if not nft.available() or not _kernel_has(options.family, host.sysctl):
        return None
    failed = partial(host.on_cleanup_failure, options.family)
    return NFTablesBackend(nft.RealNFT(runner, options.family), host.sysctl, options, host.clock, failed)


async def _require_nftables(runner: Runner) -> None:
    """Older commands read every table of the host and may stumble over those of others; whether the host's own command is
    newer than that is told by its kernel, which upstream's variable keeps from being asked.

    :raises OperatorError: when the host is too old.
    """
    if nft.available() and await nft.version(runner) < _LEAST_NFT:
        raise OperatorError(f"nft is older than {'.'.join(map(str, _LEAST_NFT))}: install a newer package nftables")
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    known = (int(release[1]), int(release[2])) if release else (0, 0)
    if not os.environ.get(_SKIP_KERNEL_CHECK) and known < _LEAST_KERNEL:
        raise OperatorError(f"kube-proxy in nftables mode requires kernel {_LEAST_KERNEL[0]}.{_LEAST_KERNEL[1]} or later")


async def require_ipvs(runner: Runner, settings: IPVSSettings) -> None:
    """Load the kernel's part, try the scheduler on an address of documentation, and set the timeouts that are given.

    :raises OperatorError: when this host has no IPVS, no such scheduler, or no ``ipset``.
    """
    trouble = "can't use the IPVS proxier: "
    for module in ("ip_vs", "dummy"):
        # it may be built in, or be loaded by a kernel that needs no modprobe: what counts is what the kernel then answers
        await _modprobe(runner, module)
    if not ipset.available():
        raise OperatorError(f"{trouble}ipset is not installed: apt-get install ipset")
    try:
        if (found := await ipset.version(runner)) < _LEAST_IPSET:
            least = ".".join(map(str, _LEAST_IPSET))
            raise OperatorError(f"{trouble}ipset version: {'.'.join(map(str, found))} is less than min required version: {least}")
        kernel = RealIPVS()
        held = await kernel.servers()
        if not any(each.settings.scheduler == settings.scheduler for each in held.values()):
            trial = Server("198.51.100.0", "TCP", 20000)
            refused = await kernel.run([Call("add server", trial, Settings(settings.scheduler))])
            for why in refused.values():
                raise OperatorError(f"{trouble}scheduler {settings.scheduler}: {why} (modprobe ip_vs_{settings.scheduler})")
            await kernel.run([Call("delete server", trial)])
        timeouts = [int(each) for each in (settings.tcp_timeout, settings.tcp_fin_timeout, settings.udp_timeout)]
        if any(timeouts):
            await kernel.set_timeouts(*timeouts)
    except (IPVSError, ipset.IPSetError) as error:
        raise OperatorError(f"{trouble}{error}") from error


async def _modprobe(runner: Runner, module: str) -> None:
    try:
        await runner.run(["modprobe", module], check=False)
    except ProcessError as error:
        _log.v(2, "Cannot load a module", module=module, err=error)


def _kernel_has(family: Family, sysctl: Sysctl) -> bool:
    return family == "IPv4" or sysctl.get("net/ipv6/conf/all/forwarding") is not None
