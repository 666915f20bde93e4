"""For whom a node may have tokens made: the audiences that its pods' volumes name. ``NodeRestriction`` asks (KEP-4935).

Projected tokens name theirs; a CSI volume's driver names those it wants with a call, be the volume inline, claimed or ephemeral.
"""

from typing import Any

from controlplane.apiserver.admission.interface import Lookup, Object

_DRIVERS = "csidrivers.storage.k8s.io"


async def is_named(pod: Object, audience: str, lookup: Lookup) -> bool:
    """Whether a volume of the pod has any use for a token for ``audience``; empty is the API server's own."""
    drivers: list[str] = []
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        for source in (volume.get("projected") or {}).get("sources") or []:
            token = source.get("serviceAccountToken")
            if token is not None and (token.get("audience") or "") == audience:
                return True
        driver = await _driver(pod, volume, lookup)
        if driver and driver not in drivers:
            drivers.append(driver)
    for name in drivers:
        found = await lookup(_DRIVERS, "", name)
        requests = ((found or {}).get("spec") or {}).get("tokenRequests") or []
        if any((each.get("audience") or "") == audience for each in requests):
            return True
    return False


async def _driver(pod: Object, volume: dict[str, Any], lookup: Lookup) -> str:
    """The CSI driver of a volume; empty when it has none, or none yet."""
    if volume.get("csi"):
        return str(volume["csi"].get("driver") or "")
    metadata = pod["metadata"]
    if volume.get("ephemeral"):
        name = f"{metadata['name']}-{volume['name']}"
    elif volume.get("persistentVolumeClaim"):
        name = str(volume["persistentVolumeClaim"].get("claimName") or "")
    else:
        return ""
    claim = await lookup("persistentvolumeclaims", metadata.get("namespace") or "", name)
    bound = ((claim or {}).get("spec") or {}).get("volumeName")
    stored = await lookup("persistentvolumes", "", bound) if bound else None
    return str((((stored or {}).get("spec") or {}).get("csi") or {}).get("driver") or "")
