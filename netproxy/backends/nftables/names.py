"""Names of chains, sets and maps, the same as upstream's, so that either proxy takes over the other's table."""

import base64
import hashlib
from typing import Final

from netproxy.plan import Target
from netproxy.trackers.services import PortName

SERVICES: Final = "services"
SERVICE_IPS: Final = "service-ips"
SERVICE_NODE_PORTS: Final = "service-nodeports"
NODE_PORT_IPS: Final = "nodeport-ips"
CLUSTER_IPS: Final = "cluster-ips"
CLUSTER_IPS_CHECK: Final = "cluster-ips-check"
SERVICE_ENDPOINTS_CHECK: Final = "service-endpoints-check"
NODE_PORT_ENDPOINTS_CHECK: Final = "nodeport-endpoints-check"
NO_ENDPOINT_SERVICES: Final = "no-endpoint-services"
NO_ENDPOINT_NODE_PORTS: Final = "no-endpoint-nodeports"
REJECT: Final = "reject-chain"
FIREWALL_IPS: Final = "firewall-ips"
FIREWALL_CHECK: Final = "firewall-check"
MARK_FOR_MASQUERADE: Final = "mark-for-masquerade"
MASQUERADING: Final = "masquerading"

SERVICE: Final = "service-"  # policy Cluster
LOCAL: Final = "local-"  # policy Local
EXTERNAL: Final = "external-"  # traffic from outside
FIREWALL: Final = "firewall-"  # source ranges of a balancer address
ENDPOINT: Final = "endpoint-"
AFFINITY: Final = "affinity-"  # the clients of an endpoint
_LONGEST: Final = 240  # the kernel's 256, less the longest prefix


def port_base(name: PortName) -> str:
    return _hashed(_port(name))


def endpoint_base(name: PortName, target: Target) -> str:
    """A colon may not be in a chain's name."""
    return _hashed(f"{_port(name)}__{target.ip.replace(':', '.')}/{target.port}")


def is_of_port(chain: str) -> bool:
    """Whether a chain belongs to one service port: only those have a slash in their names."""
    return "/" in chain


def _port(name: PortName) -> str:
    return f"{name.namespace}/{name.name}/{name.protocol.lower()}/{name.port}"


def _hashed(text: str) -> str:
    """Behind a hash of itself, so that names that differ at their end differ at their beginning too, and may be cut."""
    made = f"{base64.b32encode(hashlib.sha256(text.encode()).digest())[:8].decode()}-{text}"
    return f"{made[: _LONGEST - 3]}..." if len(made) > _LONGEST else made
