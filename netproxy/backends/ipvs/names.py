"""Chains and sets, under upstream's names: what other programs match (``KUBE-CLUSTER-IP``) and people look for."""

from typing import Final

from netproxy.trackers.services import Family

SERVICES: Final = "KUBE-SERVICES"
POSTROUTING: Final = "KUBE-POSTROUTING"
NODE_PORT: Final = "KUBE-NODE-PORT"
LOAD_BALANCER_CHAIN: Final = "KUBE-LOAD-BALANCER"
MARK_MASQ: Final = "KUBE-MARK-MASQ"
FORWARD: Final = "KUBE-FORWARD"
PROXY_FIREWALL: Final = "KUBE-PROXY-FIREWALL"
SOURCE_RANGES_FIREWALL: Final = "KUBE-SOURCE-RANGES-FIREWALL"
IPVS_FILTER: Final = "KUBE-IPVS-FILTER"
IPVS_OUT_FILTER: Final = "KUBE-IPVS-OUT-FILTER"

LOOP_BACK: Final = "KUBE-LOOP-BACK"
CLUSTER_IP: Final = "KUBE-CLUSTER-IP"
EXTERNAL_IP: Final = "KUBE-EXTERNAL-IP"
EXTERNAL_IP_LOCAL: Final = "KUBE-EXTERNAL-IP-LOCAL"
LOAD_BALANCER: Final = "KUBE-LOAD-BALANCER"
LOAD_BALANCER_FW: Final = "KUBE-LOAD-BALANCER-FW"
LOAD_BALANCER_LOCAL: Final = "KUBE-LOAD-BALANCER-LOCAL"
LOAD_BALANCER_SOURCE_IP: Final = "KUBE-LOAD-BALANCER-SOURCE-IP"
LOAD_BALANCER_SOURCE_CIDR: Final = "KUBE-LOAD-BALANCER-SOURCE-CIDR"
NODE_PORT_TCP: Final = "KUBE-NODE-PORT-TCP"
NODE_PORT_LOCAL_TCP: Final = "KUBE-NODE-PORT-LOCAL-TCP"
NODE_PORT_UDP: Final = "KUBE-NODE-PORT-UDP"
NODE_PORT_LOCAL_UDP: Final = "KUBE-NODE-PORT-LOCAL-UDP"
NODE_PORT_SCTP: Final = "KUBE-NODE-PORT-SCTP-HASH"
NODE_PORT_LOCAL_SCTP: Final = "KUBE-NODE-PORT-LOCAL-SCTP-HASH"
HEALTH_CHECK_NODE_PORT: Final = "KUBE-HEALTH-CHECK-NODE-PORT"
IPVS_IPS: Final = "KUBE-IPVS-IPS"

SETS: Final = {
    LOOP_BACK: "hash:ip,port,ip",
    CLUSTER_IP: "hash:ip,port",
    EXTERNAL_IP: "hash:ip,port",
    EXTERNAL_IP_LOCAL: "hash:ip,port",
    LOAD_BALANCER: "hash:ip,port",
    LOAD_BALANCER_FW: "hash:ip,port",
    LOAD_BALANCER_LOCAL: "hash:ip,port",
    LOAD_BALANCER_SOURCE_IP: "hash:ip,port,ip",
    LOAD_BALANCER_SOURCE_CIDR: "hash:ip,port,net",
    NODE_PORT_TCP: "bitmap:port",
    NODE_PORT_LOCAL_TCP: "bitmap:port",
    NODE_PORT_UDP: "bitmap:port",
    NODE_PORT_LOCAL_UDP: "bitmap:port",
    NODE_PORT_SCTP: "hash:ip,port",
    NODE_PORT_LOCAL_SCTP: "hash:ip,port",
    HEALTH_CHECK_NODE_PORT: "bitmap:port",
    IPVS_IPS: "hash:ip",
}
"""Each set with its type."""
_LONGEST: Final = 31


def set_name(name: str, family: Family) -> str:
    """The families' sets are told apart by a prefix, and the kernel cuts names."""
    return name if family == "IPv4" else f"KUBE-6-{name.removeprefix('KUBE-')}"[:_LONGEST]


def set_names() -> list[str]:
    """Of both families."""
    return [set_name(name, family) for name in SETS for family in ("IPv4", "IPv6")]
