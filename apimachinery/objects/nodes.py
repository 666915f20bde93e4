"""Questions about nodes."""

from collections.abc import Mapping
from typing import Any

from apimachinery.meta import condition_status, labels_of

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
REGION_LABEL = "topology.kubernetes.io/region"
ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"
EXCLUDE_BALANCERS_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
LEASE_NAMESPACE = "kube-node-lease"

Node = Mapping[str, Any]


def is_ready(node: Node) -> bool:
    return condition_status(node, "Ready") == "True"


def is_unschedulable(node: Node) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def taints(node: Node) -> list[dict[str, Any]]:
    return list((node.get("spec") or {}).get("taints") or ())


def addresses(node: Node, kind: str) -> list[str]:
    """Addresses of one type: ``InternalIP``, ``ExternalIP``, ``Hostname``, ..."""
    listed = (node.get("status") or {}).get("addresses") or ()
    return [str(each["address"]) for each in listed if each.get("type") == kind]


def internal_ip(node: Node) -> str:
    return next(iter(addresses(node, "InternalIP")), "")


def hostname(node: Node) -> str:
    return next(iter(addresses(node, "Hostname")), "") or labels_of(node).get(HOSTNAME_LABEL, "")


def zone(node: Node) -> str:
    return labels_of(node).get(ZONE_LABEL, "")


def roles(node: Node) -> list[str]:
    """As kubectl shows them: the ends of ``node-role.kubernetes.io/...`` labels and the old ``kubernetes.io/role``."""
    found = set()
    for key, value in labels_of(node).items():
        if key.startswith(ROLE_LABEL_PREFIX) and len(key) > len(ROLE_LABEL_PREFIX):
            found.add(key[len(ROLE_LABEL_PREFIX) :])
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return sorted(found)


def pod_cidrs(node: Node) -> list[str]:
    spec = node.get("spec") or {}
    return list(spec.get("podCIDRs") or ()) or ([spec["podCIDR"]] if spec.get("podCIDR") else [])


def kubelet_port(node: Node) -> int:
    endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
    return int((endpoints.get("kubeletEndpoint") or {}).get("Port") or 10250)


def image_sizes(node: Node) -> dict[str, int]:
    """Bytes of every image the node reports, by each of its names."""
    sizes: dict[str, int] = {}
    for image in (node.get("status") or {}).get("images") or ():
        for name in image.get("names") or ():
            sizes[name] = int(image.get("sizeBytes") or 0)
    return sizes
