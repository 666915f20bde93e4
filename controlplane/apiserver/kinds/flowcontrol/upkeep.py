"""How stored flow control objects ought to be: pure decisions that ``poststart_requests`` carries out, now and then."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from apimachinery.meta import clone, set_condition
from controlplane.apiserver.kinds.flowcontrol import bootstrap

Object = dict[str, Any]
_TRUTH = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def mended(stored: Object, wanted: Object) -> Object | None:
    """The mandatory objects keep their specs, the suggested ones until somebody says that they shall not; else None.

    The annotation says who looks after the object. Without it an object that nobody has changed yet is the server's.
    """
    name, kind = wanted["metadata"]["name"], wanted["kind"]
    mandatory = bootstrap.MANDATORY_LEVELS if kind == "PriorityLevelConfiguration" else bootstrap.MANDATORY_SCHEMAS
    metadata = stored["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    said = _TRUTH.get(annotations.get(bootstrap.AUTO_UPDATE, ""))
    ours = name in mandatory or (said if said is not None else metadata.get("generation") == 1)
    spec = dict(wanted["spec"])
    if name in mandatory and "exempt" in (stored.get("spec") or {}):
        spec["exempt"] = stored["spec"]["exempt"]  # how much it lends is for people to say
    changed = stored
    if said is not ours:
        changed = {**changed, "metadata": {**metadata, "annotations": {**annotations, bootstrap.AUTO_UPDATE: str(ours).lower()}}}
    if ours and stored.get("spec") != spec:
        changed = {**changed, "spec": spec}
    return None if changed is stored else changed


def is_ours(stored: Object) -> bool:
    """Whether an object says that the server may do with it what it likes."""
    return _TRUTH.get((stored["metadata"].get("annotations") or {}).get(bootstrap.AUTO_UPDATE, "")) is True


def with_dangling(schema: Object, levels: Collection[str], now: datetime) -> Object | None:
    """The FlowSchema with its condition ``Dangling`` as it is; None when it says so already."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    there = level in levels
    text = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
    text += "and it exists" if there else "but there is no such object"
    changed = clone(schema)
    changed.setdefault("status", {})
    words = ("False", "Found") if there else ("True", "NotFound")
    return changed if set_condition(changed, "Dangling", words[0], reason=words[1], message=text, now=now) else None
