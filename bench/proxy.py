"""What the proxy's syncs cost, without an API server: all rules at once, then one change among many services.

Run as root: ``python -m bench.proxy [--services 100,1000,5000] [--mode iptables-nft,iptables-legacy,nftables,ipvs]``. It works in
a network namespace of its own (``unshare --net``). Elapsed time and, beside other work the better measure, processor time; both
with the share of the tools that the proxy starts.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from component.clock import RealClock
from component.metrics import Registry
from component.process import RealRunner
from netproxy.backends.interface import Backend
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.ipvs import IPVSBackend, Kernel
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.nftables import NFTablesBackend
from netproxy.backends.options import Options
from netproxy.health import ProxyHealth
from netproxy.kernel.addresses import RealLocalAddresses
from netproxy.kernel.conntrack import RealConntrack
from netproxy.kernel.ipset import RealIPSets
from netproxy.kernel.iptables import RealIPTables
from netproxy.kernel.ipvs import RealIPVS
from netproxy.kernel.nft import RealNFT
from netproxy.kernel.sysctl import RealSysctl
from netproxy.metrics import ProxyMetrics
from netproxy.pace import Pace
from netproxy.proxier import Proxier, Trackers
from netproxy.trackers.endpoints import EndpointsTracker
from netproxy.trackers.nodes import NodeTracker
from netproxy.trackers.services import ServiceTracker

REPEATS = 10


def service(number: int) -> dict[str, Any]:
    address = f"10.{96 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    spec = {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports}
    return {"metadata": {"namespace": "bench", "name": f"service-{number}"}, "spec": spec}


def endpoint_slice(number: int, *addresses: str) -> dict[str, Any]:
    endpoints = [{"addresses": [address], "nodeName": "node-1", "conditions": {"ready": True}} for address in addresses]
    metadata = {
        "namespace": "bench",
        "name": f"service-{number}-a",
        "labels": {"kubernetes.io/service-name": f"service-{number}"},
    }
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}


def memory_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def backend_of(mode: str) -> Backend:
    options = Options(cluster_cidr="10.244.0.0/16")
    if mode == "nftables":
        return NFTablesBackend(RealNFT(RealRunner()), RealSysctl(), options, RealClock())
    if mode == "ipvs":
        kernel = Kernel(RealIPVS(), RealIPSets(RealRunner()), RealIPTables(RealRunner()), RealLocalAddresses(), RealSysctl())
        return IPVSBackend(kernel, options, IPVSSettings(), RealClock())
    variant: Any = mode.removeprefix("iptables-")
    return IPTablesBackend(RealIPTables(RealRunner(), "IPv4", variant), RealSysctl(), options)


def cpu_seconds() -> float:
    """Of this process and of the programs that it ran."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Bench:
    def __init__(self, mode: str) -> None:
        clock = RealClock()
        self.trackers = Trackers(ServiceTracker(), EndpointsTracker("node-1"), NodeTracker("node-1"))
        backend = backend_of(mode)
        metrics = ProxyMetrics(Registry(process=False), mode.partition("-")[0])
        pace, health = Pace(1.0), ProxyHealth(clock, 60)
        self.proxier = Proxier(self.trackers, backend, RealConntrack(), clock, metrics, pace=pace, health=health)

    async def sync(self) -> tuple[float, float]:
        """Elapsed seconds, and those of CPU."""
        began, cpu = time.perf_counter(), cpu_seconds()
        if not await self.proxier.sync():
            raise SystemExit("the rules were refused")
        return time.perf_counter() - began, cpu_seconds() - cpu


async def measure(mode: str, count: int) -> None:
    bench, before = Bench(mode), memory_mb()
    for number in range(count):
        bench.trackers.services.update(service(number))
        pair = (f"10.244.{number // 250 % 250}.{number % 250}", f"10.245.{number // 250 % 250}.{number % 250}")
        bench.trackers.endpoints.update(endpoint_slice(number, *pair))
    everything, all_cpu = await bench.sync()
    memory = memory_mb() - before
    endpoints = []
    for turn in range(REPEATS):
        bench.trackers.endpoints.update(endpoint_slice(count // 2, f"10.246.0.{turn}", "10.246.1.1"))
        endpoints.append(await bench.sync())
    added = []
    for turn in range(REPEATS):
        bench.trackers.services.update(service(count + turn))
        bench.trackers.endpoints.update(endpoint_slice(count + turn, "10.246.2.1"))
        added.append(await bench.sync())
    figures = [everything, all_cpu]
    for runs in (endpoints, added):
        figures += [statistics.median(column) * 1000 for column in zip(*runs, strict=True)]
    print(f"{mode:15} {count:8}" + "".join(f"{each:12.2f}" for each in figures) + f"{memory:12.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", default="100,1000,5000")
    parser.add_argument("--mode", default="iptables-nft,iptables-legacy,nftables")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        mode, _, count = arguments.inside.partition(":")
        asyncio.run(measure(mode, int(count)))
        return
    columns = ("all, s", "CPU, s", "endpoint, ms", "CPU, ms", "service, ms", "CPU, ms", "memory, MB")
    print(f"{'':15} {'services':>8}" + "".join(f"{each:>12}" for each in columns))
    for mode in arguments.mode.split(","):
        for count in arguments.services.split(","):
            again = [sys.executable, "-m", "bench.proxy", "--inside", f"{mode}:{count}"]
            subprocess.run(["unshare", "--net", *again], check=True)


if __name__ == "__main__":
    main()
