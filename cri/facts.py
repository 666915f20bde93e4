"""What a runtime says of itself beyond CRI: the ``config`` that containerd adds to a verbose status. A hint, never needed.

``up --containerd`` reads where pod networks are configured and whether systemd makes the cgroups (CRI itself tells only since
containerd 2); the kubelet's image collection which image sandboxes start from.
"""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Facts:
    """Empty where the runtime does not say."""

    cni_conf_dir: str = ""
    sandbox_image: str = ""
    systemd_cgroup: bool = False


def parse(config: str) -> Facts:
    """Newer versions name the image below ``pinnedImages`` or not at all; what cannot be read says nothing."""
    try:
        told: Any = json.loads(config or "{}")
    except ValueError:
        return Facts()
    if not isinstance(told, dict):
        return Facts()
    cni = told.get("cni") or {}
    image = told.get("sandboxImage") or (told.get("pinnedImages") or {}).get("sandbox") or ""
    runtimes = told.get("containerd") or {}
    default = (runtimes.get("runtimes") or {}).get(runtimes.get("defaultRuntimeName")) or {}
    systemd = (default.get("options") or {}).get("SystemdCgroup") is True
    return Facts(str(cni.get("confDir") or ""), str(image), systemd)
