"""The pods that the API server has bound to this node. Started by ``kubelet.py``; feeds the pod manager."""

from collections.abc import Callable
from typing import Any

from apimachinery.objects.pods import is_mirror
from apimachinery.resources import PODS
from client.informer import Informer, InformerFactory
from node.kubelet.sources.static_pods import SOURCE_ANNOTATION

Object = dict[str, Any]


def pod_informer(informers: InformerFactory, node_name: str) -> Informer:
    """An informer of this node's pods only. Items of lists carry no type: it is added, for events."""
    return informers.informer(PODS, field_selector=f"spec.nodeName={node_name}", transform=_typed)


def connect(informer: Informer, update: Callable[[Object], object], remove: Callable[[str], object]) -> None:
    """Call ``update`` for each added or changed pod, ``remove`` with the uid of each that is gone."""
    informer.add_handler(
        on_add=update,
        on_update=lambda old, new: update(new),
        on_delete=lambda gone: remove(str(gone["metadata"].get("uid") or "")),
    )


def _typed(pod: Object) -> Object:
    pod["metadata"].pop("managedFields", None)
    if not is_mirror(pod):  # or anybody could pass a pod off as this node's own
        (pod["metadata"].get("annotations") or {}).pop(SOURCE_ANNOTATION, None)
    pod.setdefault("apiVersion", "v1")
    pod.setdefault("kind", "Pod")
    return pod
