"""VolumeAttachments of CSI volumes: their names, and what nodes call the volumes. Pure; asked by attach/detach and kubelets."""

import hashlib
from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]


def attachment_name(handle: str, driver: str, node: str) -> str:
    """The one VolumeAttachment for a volume on a node: upstream's name, so that both find each other's."""
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def unique_name(driver: str, handle: str) -> str:
    """As in ``volumesAttached`` and ``volumesInUse`` of a node."""
    return f"kubernetes.io/csi/{driver}^{handle}"


def needs_attaching(driver: Object | None) -> bool:
    """``driver`` is the CSIDriver object; a driver without one is attached, to be safe."""
    return driver is None or (driver.get("spec") or {}).get("attachRequired") is not False


def is_attached(attachment: Object) -> bool:
    return bool((attachment.get("status") or {}).get("attached"))
