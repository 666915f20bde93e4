"""Tells the API and people that a volume has grown on this node. Called by ``plugin``."""

from collections.abc import Mapping
from typing import Any

from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS
from client.rest import Client
from node.kubelet.interface import Pod
from node.kubelet.recorder import PodEvents

_OVER = frozenset({"Resizing", "FileSystemResizePending"})


class Resized:
    def __init__(self, client: Client, events: PodEvents, node_name: str) -> None:
        self._client, self._events, self._node_name = client, events, node_name

    async def __call__(self, pod: Pod, claim: Mapping[str, Any], volume: Mapping[str, Any]) -> None:
        body = {"metadata": {"uid": uid_of(claim)}, "status": grown_status(claim, volume)}
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, name_of(claim), body, namespace=namespace_of(claim), subresource="status"
        )
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{name_of(volume)}" {self._node_name}'
        self._events.normal(pod, "FileSystemResizeSuccessful", text)


def grown_status(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> dict[str, Any]:
    """What a claim's status says once its volume has its new size. Pure."""
    status = claim.get("status") or {}
    kept = [each for each in status.get("conditions") or () if each.get("type") not in _OVER]
    changed: dict[str, Any] = {"capacity": dict(volume["spec"]["capacity"]), "conditions": kept or None}
    if (status.get("allocatedResourceStatuses") or {}).get("storage"):
        changed["allocatedResourceStatuses"] = {"storage": None}
    return changed
