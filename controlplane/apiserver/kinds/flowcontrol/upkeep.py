"""How stored flow control objects ought to be: pure decisions that ``poststart_requests`` carries out, now and then."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from apimachinery.meta import clone, set_condition
from controlplane.apiserver.kinds.flowcontrol import bootstrap

Object = dict[str, Any]


def mended(stored: Object, wanted: Object) -> Object | None:
    """The mandatory objects keep their specs, the suggested ones until somebody says that they shall not; else None."""
    name, kind = wanted["metadata"]["name"], wanted["kind"]
    mandatory = bootstrap.MANDATORY_LEVELS if kind == "PriorityLevelConfiguration" else bootstrap.MANDATORY_SCHEMAS
    annotations: Mapping[str, str] = stored["metadata"].get("annotations") or {}
    if name not in mandatory and annotations.get(bootstrap.AUTO_UPDATE) != "true":
        return None
    spec = dict(wanted["spec"])
    if name in mandatory and "exempt" in (stored.get("spec") or {}):
        spec["exempt"] = stored["spec"]["exempt"]  # how much it lends is for people to say
    return None if stored.get("spec") == spec else {**stored, "spec": spec}


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
