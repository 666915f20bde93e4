"""What the local-path provisioner (a controller) and the kubelets say to each other, through annotations of the Node. Pure.

The provisioner writes a PersistentVolume with a directory of one node; the node's kubelet makes the directory when the volume
is first mounted. To have directories deleted, the provisioner names them in one annotation of the Node; the kubelet deletes
them and names them in another; then the provisioner lets the volumes go, and both lists become shorter again. A kubelet
reads no volumes but those that its pods use, so it is not told through them.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from apimachinery.meta import annotations_of
from apimachinery.objects import volumes

PROVISIONER = "pybernetes.io/local-path"
NODE_LABEL = "local-path.pybernetes.io/node"
"""On a volume: whose directory it is."""
DELETE = "local-path.pybernetes.io/delete"
DELETED = "local-path.pybernetes.io/deleted"
"""On a node: names of directories, joined by slashes, which no name can hold."""
_LABEL_MAX = 63


def node_label(node: str) -> str:
    """The label's value for a node: its name, or a digest of one that is too long for a label."""
    return node if len(node) <= _LABEL_MAX else hashlib.sha256(node.encode()).hexdigest()[:_LABEL_MAX]


def listed(node: Mapping[str, Any], annotation: str) -> frozenset[str]:
    """The directories in one of the two lists. Names that would lead elsewhere are passed over."""
    return frozenset(name for name in annotations_of(node).get(annotation, "").split("/") if name not in ("", ".", ".."))


def joined(names: Iterable[str]) -> str | None:
    """The annotation for a list; None, which takes it away, for an empty one."""
    return "/".join(sorted(names)) or None


def is_ours(volume: Mapping[str, Any]) -> bool:
    return annotations_of(volume).get(volumes.PROVISIONED_BY) == PROVISIONER


def directory(volume: Mapping[str, Any]) -> str:
    """The name of a volume's directory."""
    return PurePosixPath(str(volumes.source_of(volume)[1].get("path") or "")).name
