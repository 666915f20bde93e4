"""What the local-path provisioner (a controller) and the kubelets say to each other, through a volume and a node. Pure.

The controller writes a PersistentVolume with a directory of one node and labels it with that node; the node's kubelet makes
the directory. To delete it, the controller annotates the volume; the kubelet deletes the directory and names the volume in
an annotation of its own Node, the one object it may write; then the controller lets the volume go.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from apimachinery.meta import annotations_of

PROVISIONER = "pybernetes.io/local-path"
NODE_LABEL = "local-path.pybernetes.io/node"
DELETE = "local-path.pybernetes.io/delete"
"""On a volume: the kubelet shall delete its directory."""
DELETED = "local-path.pybernetes.io/deleted"
"""On a node: names of volumes whose directories are gone, joined by commas; a name leaves when its volume does."""
_LABEL_MAX = 63


def node_label(node: str) -> str:
    """The label's value for a node: its name, or a digest of one that is too long for a label."""
    return node if len(node) <= _LABEL_MAX else hashlib.sha256(node.encode()).hexdigest()[:_LABEL_MAX]


def deleted_on(node: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, annotations_of(node).get(DELETED, "").split(",")))


def deleted_text(names: frozenset[str]) -> str:
    return ",".join(sorted(names))
