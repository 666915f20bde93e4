"""A proxy without an API server: Services and EndpointSlices are handed to it, ``sync`` programs them.

``service`` and ``endpoint_slice`` build the objects as the API server would store them.
"""

from collections.abc import Sequence
from typing import Any

from component.clock import Clock, FakeClock
from component.metrics import Registry
from netproxy.backends.interface import Backend
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.ipvs import IPVSBackend, Kernel
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.nftables import NFTablesBackend
from netproxy.backends.options import Options
from netproxy.health import ProxyHealth
from netproxy.kernel.conntrack import Conntrack, FakeConntrack
from netproxy.kernel.fake_iptables import FakeIPTables
from netproxy.kernel.fake_ipvs import FakeAddresses, FakeIPSets, FakeIPVS
from netproxy.kernel.fake_nft import FakeNFT
from netproxy.kernel.sysctl import FakeSysctl
from netproxy.metrics import ProxyMetrics
from netproxy.pace import Pace
from netproxy.proxier import Proxier, Trackers
from netproxy.trackers.endpoints import EndpointsTracker
from netproxy.trackers.nodes import NodeTracker
from netproxy.trackers.services import ServiceTracker

Object = dict[str, Any]
NODE = "node-1"
CLUSTER_CIDR = "10.244.0.0/16"


def service(name: str = "web", ip: str = "10.96.0.10", ports: Sequence[Object] | None = None, **spec: Any) -> Object:
    """``status_ips`` puts addresses of a load balancer into the status."""
    status_ips = spec.pop("status_ips", ())
    labels = spec.pop("labels", {})
    obj: Object = {
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ports": ports or [port(80)], **spec},
    }
    if status_ips:
        obj["status"] = {"loadBalancer": {"ingress": [{"ip": each} for each in status_ips]}}
    return obj


def port(number: int, name: str = "", protocol: str = "TCP", node_port: int = 0) -> Object:
    made: Object = {"port": number, "protocol": protocol}
    if name:
        made["name"] = name
    if node_port:
        made["nodePort"] = node_port
    return made


def endpoint(ip: str, node: str = NODE, **conditions: Any) -> Object:
    """``ready``, ``serving``, ``terminating``; ``zones`` are hints."""
    zones = conditions.pop("zones", ())
    made: Object = {"addresses": [ip], "nodeName": node, "conditions": {"ready": True, **conditions}}
    if zones:
        made["hints"] = {"forZones": [{"name": zone} for zone in zones]}
    return made


def endpoint_slice(
    endpoints: Sequence[Object], name: str = "web", ports: Sequence[Object] | None = None, suffix: str = "a", **metadata: Any
) -> Object:
    return {
        "metadata": {
            "namespace": "default",
            "name": f"{name}-{suffix}",
            "labels": {"kubernetes.io/service-name": name},
            **metadata,
        },
        "addressType": "IPv6" if endpoints and all(":" in each["addresses"][0] for each in endpoints) else "IPv4",
        "endpoints": list(endpoints),
        "ports": list(ports or [port(8080)]),
    }


def node(name: str = NODE, address: str = "10.0.0.1", zone: str = "") -> Object:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]},
    }


def nftables_proxy(options: Options | None = None, cleanup_failures: list[None] | None = None) -> tuple["TestProxy", FakeNFT]:
    """A proxy on nftables in memory; ``cleanup_failures`` grows by one for each time that old chains could not be deleted."""
    nft, clock, failures = FakeNFT(), FakeClock(), cleanup_failures if cleanup_failures is not None else []
    options = options or Options(cluster_cidr=CLUSTER_CIDR)
    backend = NFTablesBackend(nft, FakeSysctl(), options, clock, lambda: failures.append(None))
    return TestProxy(backend, clock=clock), nft


class IPVSProxy:
    """A proxy on virtual servers in memory, with each of the fakes that it is on."""

    def __init__(self, options: Options | None = None, settings: IPVSSettings | None = None) -> None:
        self.ipvs, self.sets, self.tables, self.addresses = FakeIPVS(), FakeIPSets(), FakeIPTables(), FakeAddresses()
        self.sysctl, self.clock = FakeSysctl(), FakeClock()
        self.kernel = Kernel(self.ipvs, self.sets, self.tables, self.addresses, self.sysctl)
        backend = IPVSBackend(self.kernel, options or Options(cluster_cidr=CLUSTER_CIDR), settings or IPVSSettings(), self.clock)
        self.proxy = TestProxy(backend, clock=self.clock)

    def state(self) -> dict[str, object]:
        """All that the kernel holds."""
        return {
            "servers": self.ipvs.state(),
            "sets": self.sets.sets,
            "bound": self.addresses.bound,
            "rules": self.tables.tables,
        }


class TestProxy:
    """The proxier with fakes below, or with what is given. ``put`` and ``delete`` take objects of any of the three kinds."""

    __test__ = False

    def __init__(
        self,
        backend: Backend | None = None,
        flows: Conntrack | None = None,
        clock: Clock | None = None,
        options: Options | None = None,
    ) -> None:
        self.tables = FakeIPTables()
        self.sysctl = FakeSysctl({"net/ipv4/conf/all/route_localnet": "0"})
        self.clock = clock or FakeClock()
        self.backend = backend or IPTablesBackend(self.tables, self.sysctl, options or Options(cluster_cidr=CLUSTER_CIDR))
        family = self.backend.options.family
        self.trackers = Trackers(ServiceTracker(family), EndpointsTracker(NODE, family), NodeTracker(NODE))
        self.flows = flows or FakeConntrack()
        self.registry = Registry(process=False)
        self.health = ProxyHealth(self.clock, 60, (family,))
        self.proxier = Proxier(
            self.trackers,
            self.backend,
            self.flows,
            self.clock,
            ProxyMetrics(self.registry),
            pace=Pace(1.0),
            health=self.health,
            family=family,
        )

    def put(self, *objects: Object) -> None:
        for obj in objects:
            if self._tracker(obj).update(obj):
                self.proxier.notify()

    def delete(self, *objects: Object) -> None:
        for obj in objects:
            if self._tracker(obj).delete(obj):
                self.proxier.notify()

    async def sync(self) -> None:
        assert await self.proxier.sync(), "the rules were refused"

    async def resync(self) -> None:
        """Write everything anew, as from time to time."""
        self.proxier._full_needed = True
        await self.sync()

    def _tracker(self, obj: Object) -> Any:
        if "addressType" in obj:
            return self.trackers.endpoints
        return self.trackers.services if "ports" in (obj.get("spec") or {}) else self.trackers.node
