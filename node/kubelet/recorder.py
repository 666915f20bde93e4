"""Events about pods and their containers, in upstream's words. Every part that acts on a pod tells through this."""

from collections.abc import Mapping
from typing import Any, Protocol

from apimachinery.objects import pods

NORMAL, WARNING = "Normal", "Warning"


class Sink(Protocol):
    """``client.events.Recorder``, or a list in tests."""

    def event(
        self,
        regarding: dict[str, Any],
        type: str,  # noqa: A002 - the field's name
        reason: str,
        note: str,
        action: str = "",
        related: dict[str, Any] | None = None,
    ) -> None: ...


def node_event(sink: Sink, name: str, kind: str, reason: str, note: str) -> None:
    """An event about this node. Its uid is its name, as upstream's kubelets write it."""
    sink.event({"kind": "Node", "apiVersion": "v1", "name": name, "uid": name}, kind, reason, note)


class PodEvents:
    """Normal and Warning events, about the pod or, with ``container``, about one container of it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def normal(self, pod: Mapping[str, Any], reason: str, note: str, container: str = "") -> None:
        self._sink.event(reference(pod, container), NORMAL, reason, note)

    def warning(self, pod: Mapping[str, Any], reason: str, note: str, container: str = "") -> None:
        self._sink.event(reference(pod, container), WARNING, reason, note)


def reference(pod: Mapping[str, Any], container: str = "") -> dict[str, Any]:
    """The ObjectReference of a pod; ``fieldPath`` names the container, as ``kubectl describe`` shows it."""
    metadata = pod["metadata"]
    made = {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    if container:
        made["fieldPath"] = field_path(pod, container)
    return {key: value for key, value in made.items() if value}


def field_path(pod: Mapping[str, Any], container: str) -> str:
    """``spec.containers{web}``"""
    spec = pods.spec_of(pod)
    for field in ("initContainers", "ephemeralContainers"):
        if any(each["name"] == container for each in spec.get(field) or ()):
            return f"spec.{field}{{{container}}}"
    return f"spec.containers{{{container}}}"
