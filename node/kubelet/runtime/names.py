"""Labels and annotations on sandboxes and containers, under upstream's names: they are how a restarted kubelet, and any
tool that reads the runtime, finds out what belongs to which pod. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

CONTAINER_HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS = "io.kubernetes.container.ports"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
RESOURCES = "pybernetes.io/container.resources"

DEFAULT_GRACE = 30


def container_hash(container: Mapping[str, Any]) -> str:
    """Changes when a running container must be replaced: upstream's FNV-1a over the fields that cannot change in place."""
    picked = json.dumps({"image": container.get("image", ""), "name": container["name"]}, separators=(",", ":"))
    value = 0x811C9DC5
    for byte in picked.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:x}"


def pod_log_directory(root: Path, namespace: str, name: str, uid: str) -> Path:
    """``<root>/<namespace>_<name>_<uid>``, where CRI puts the logs of all containers of a pod."""
    return root / f"{namespace}_{name}_{uid}"


def container_log_path(container: str, attempt: int) -> str:
    """Relative to the pod's log directory."""
    return f"{container}/{attempt}.log"
