"""Chain names, the same as upstream's, so that either proxy takes over the other's rules and people find what they know."""

import base64
import hashlib
from typing import Final

from netproxy.plan import Target
from netproxy.trackers.services import PortName

SERVICES: Final = "KUBE-SERVICES"
EXTERNAL_SERVICES: Final = "KUBE-EXTERNAL-SERVICES"
NODE_PORTS: Final = "KUBE-NODEPORTS"
POSTROUTING: Final = "KUBE-POSTROUTING"
MARK_MASQ: Final = "KUBE-MARK-MASQ"
FORWARD: Final = "KUBE-FORWARD"
PROXY_FIREWALL: Final = "KUBE-PROXY-FIREWALL"
FIREWALL: Final = "KUBE-FIREWALL"  # shared with upstream's kubelet
CANARY: Final = "KUBE-PROXY-CANARY"
TRIAL: Final = "KUBE-PROXY-TRIAL"  # of ours alone: see ``quarantine``
OF_IPVS: Final = (  # chains of the ipvs mode alone, with whose clean-up they go
    "KUBE-NODE-PORT",
    "KUBE-LOAD-BALANCER",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
)
KUBELET_CANARY: Final = "KUBE-KUBELET-CANARY"

SVC: Final = "KUBE-SVC-"  # policy Cluster
SVL: Final = "KUBE-SVL-"  # policy Local
EXT: Final = "KUBE-EXT-"  # traffic from outside
FW: Final = "KUBE-FW-"  # source ranges of a balancer address
SEP: Final = "KUBE-SEP-"  # one endpoint
PORT_PREFIXES: Final = (SVC, SVL, EXT, FW, SEP)


def port_hash(name: PortName) -> str:
    return _hash(f"{name}{name.protocol.lower()}")


def endpoint_chain(name: PortName, target: Target) -> str:
    return SEP + _hash(f"{name}{name.protocol.lower()}{target}")


def _hash(text: str) -> str:
    """80 bits in base32: chain names must stay under 29 characters."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest())[:16].decode()
