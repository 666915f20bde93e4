"""Limits that pods set themselves on local disk: emptyDir sizeLimit, and ephemeral-storage of containers and of the whole pod.

Who exceeds one is evicted at once, pressure or not. Pure; ``manager`` calls it.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery import quantity
from apimachinery.objects import pods
from apimachinery.objects.requests import EPHEMERAL_STORAGE, amount, pod_limits
from node.kubelet.eviction.ranking import PodUsed

Pod = Mapping[str, Any]


def is_limited(pod: Pod) -> bool:
    """Whether anything of the pod's disk must be measured all the time."""
    spec = pods.spec_of(pod)
    sized = any((volume.get("emptyDir") or {}).get("sizeLimit") is not None for volume in spec.get("volumes") or ())
    return sized or EPHEMERAL_STORAGE in pod_limits(pod)


def exceeded(pod: Pod, used: PodUsed) -> tuple[str, str] | None:
    """(signal, message) of an eviction, in upstream's words; None while all is within limits."""
    for signal, check in (
        ("emptydirfs.limit", _volume),
        ("ephemeralpodfs.limit", _pod),
        ("ephemeralcontainerfs.limit", _container),
    ):
        if message := check(pod, used):
            return signal, message
    return None


def _volume(pod: Pod, used: PodUsed) -> str | None:
    for volume in pods.spec_of(pod).get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        taken = used.volumes.get(str(volume["name"]))
        if limit is None or taken is None:
            continue
        most = quantity.parse(limit).value()
        if most > 0 and taken[0] > most:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{quantity.canonical(limit)}". '
    return None


def _pod(pod: Pod, used: PodUsed) -> str | None:
    limit = pod_limits(pod).get(EPHEMERAL_STORAGE)
    if limit is None or used.disk() <= limit:
        return None
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {quantity.of(limit, 'BinarySI')}. "


def _container(pod: Pod, used: PodUsed) -> str | None:
    for container in pods.all_containers(pod):
        text = ((container.get("resources") or {}).get("limits") or {}).get(EPHEMERAL_STORAGE)
        one = used.containers.get(str(container["name"]))
        if text is None or one is None:
            continue
        if one.rootfs + one.logs > amount(EPHEMERAL_STORAGE, text):
            return f'Container {container["name"]} exceeded its local ephemeral storage limit "{quantity.canonical(text)}". '
    return None
