"""Objects and snapshots for tests of explanations, in as few words as possible."""

from datetime import UTC, datetime, timedelta
from typing import Any

from apimachinery.meta import Object
from apimachinery.times import format_time
from why.cause import Explanation
from why.kinds import KINDS
from why.rendering import tree
from why.snapshot import Scope, Snapshot

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NS = "shop"


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def obj(kind: str, name: str, *, spec: Any = None, status: Any = None, owner: Object | None = None, **more: Any) -> Object:
    """``labels``, ``annotations``, ``finalizers`` and times go into the metadata; anything else beside the spec."""
    metadata: Object = {"name": name, "uid": f"uid-{kind}-{name}", "creationTimestamp": ago(300), "generation": 1}
    if KINDS[kind].namespaced:
        metadata["namespace"] = more.pop("namespace", NS)
    for field in ("labels", "annotations", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        if field in more:
            metadata[field] = more.pop(field)
    if owner is not None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    made = {"kind": kind, "metadata": metadata, **more}
    return made | {key: value for key, value in (("spec", spec), ("status", status)) if value is not None}


def pod(name: str = "web", *, state: Any = None, ready: bool = False, node: str = "n1", **more: Any) -> Object:
    """A pod of one container ``c``; ``state`` is that of the container, ``container`` more fields of it."""
    container = {"name": "c", "image": "web:1", **more.pop("container", {})}
    spec = {"containers": [container], **({"nodeName": node} if node else {}), **more.pop("spec", {})}
    status: Object = {"phase": "Running" if ready else "Pending"}
    if state is not None or ready:
        held = {"name": "c", "image": "web:1", "ready": ready, "restartCount": 0, "state": state or {"running": {}}}
        status["containerStatuses"] = [held | more.pop("container_status", {})]
    status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return obj("Pod", name, spec=spec, status=status | more.pop("status", {}), **more)


def node(name: str = "n1", *, ready: str = "True", cpu: str = "4", spec: Any = None, **more: Any) -> Object:
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady", "lastHeartbeatTime": ago(60)}
    resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return obj("Node", name, spec=spec or {}, status={"conditions": [condition], "allocatable": resources}, **more)


def event(about: Object, reason: str, message: str, *, kind: str = "Warning", age: float = 10, **more: Any) -> Object:
    metadata = about["metadata"]
    involved = {"kind": about["kind"], "name": metadata["name"], "namespace": metadata.get("namespace"), "uid": metadata["uid"]}
    involved |= more.pop("involved", {})
    name = f"{metadata['name']}.{reason}.{abs(hash(message))}"
    fields = {"involvedObject": involved, "reason": reason, "message": message, "type": kind, "lastTimestamp": ago(age)}
    return {"kind": "Event", "metadata": {"name": name, "namespace": metadata.get("namespace", "default")}, **fields, **more}


def snapshot(*objects: Object, logs: Any = None, unread: tuple[str, ...] = ()) -> Snapshot:
    """Everything was read but the kinds ``unread``."""
    whole = {Scope(kind) for kind in KINDS if kind not in unread}
    return Snapshot(objects, NOW, whole, dict.fromkeys(unread, "may not be read"), logs or {})


def text(answer: Explanation) -> str:
    """The tree without line breaks inside of sentences."""
    return tree(answer, 10_000)
