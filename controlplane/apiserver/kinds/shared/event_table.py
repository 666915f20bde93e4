"""Columns and selectable fields of Events, in their stored (core/v1) form: both groups that serve Events use them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.apiserver.kinds.shared.columns import wide
from controlplane.apiserver.registry.printing import age
from controlplane.apiserver.registry.strategy import Column

Object = Mapping[str, Any]

EVENT_COLUMNS = (
    Column("Last Seen", description="When this was last observed."),
    Column("Type", description="Normal or Warning."),
    Column("Reason", description="A short, machine understandable reason."),
    Column("Object", description="What the event is about."),
    wide("Subobject", "The field of the object that the event is about."),
    wide("Source", "The component that reported the event, and where."),
    Column("Message", description="A human-readable description."),
    wide("First Seen", "When this was first observed."),
    wide("Count", "How often this was observed."),
    Column("Name", format="name", description="The name of the event.", priority=1),
)

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE = frozenset({*(f"involvedObject.{field}" for field in _INVOLVED), "reason", "reportingComponent", "source", "type"})


def event_fields(event: Object) -> dict[str, str]:
    involved = event.get("involvedObject") or {}
    values = {f"involvedObject.{field}": str(involved.get(field) or "") for field in _INVOLVED}
    values["reason"] = str(event.get("reason") or "")
    values["reportingComponent"] = str(event.get("reportingComponent") or "")
    values["source"] = str((event.get("source") or {}).get("component") or values["reportingComponent"])
    values["type"] = str(event.get("type") or "")
    return values


def event_row(event: Object, now: datetime) -> list[Any]:
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count") or 0
    involved = event.get("involvedObject") or {}
    target = str(involved.get("kind") or "").lower()
    if involved.get("name"):
        target += f"/{involved['name']}"
    return [
        last,
        event.get("type") or "",
        event.get("reason") or "",
        target,
        involved.get("fieldPath") or "",
        _source(event),
        str(event.get("message") or "").strip(),
        first,
        count,
        event["metadata"]["name"],
    ]


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)
