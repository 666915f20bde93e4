"""Events of events.k8s.io/v1: another view of the stored core/v1 Events, and stricter about new ones."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.event_table import EVENT_COLUMNS, SELECTABLE, event_fields, event_row
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

_RENAMED = (  # events.k8s.io, core
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_TO_CORE = dict(_RENAMED)
_FROM_CORE = {core: new for new, core in _RENAMED}
_NOTE_MAX = 1024
_REQUIRED = ("reportingController", "reportingInstance", "action", "reason")


class NewEventStrategy(Strategy):
    """Same objects, other field names. ``stored_as`` is the core resource, whose strategy keeps them."""

    info = ResourceInfo(GroupVersionKind("events.k8s.io", "v1", "Event"), "events", "event", True, short_names=("ev",))
    columns = EVENT_COLUMNS
    selectable_names = frozenset({"reason", "type"})
    selectable_aliases = MappingProxyType(
        {name.replace("involvedObject.", "regarding."): name for name in SELECTABLE if name.startswith("involvedObject.")}
        | {"reportingController": "reportingComponent"}
    )
    allow_create_on_update = True

    def __init__(self, ttl: int, stored_as: ResourceInfo) -> None:
        self.ttl = ttl
        self.stored_as = stored_as

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if not obj.get("eventTime"):
            found.append(fieldpath.required("eventTime"))
        found += [fieldpath.required(field) for field in _REQUIRED if not obj.get(field)]
        if obj.get("type") not in ("Normal", "Warning"):
            found.append(fieldpath.invalid("type", obj.get("type") or "", "has invalid value"))
        if len(obj.get("note") or "") > _NOTE_MAX:
            found.append(fieldpath.invalid("note", "", f"can have at most {_NOTE_MAX} bytes"))
        namespace = obj["metadata"].get("namespace") or ""
        about = (obj.get("regarding") or {}).get("namespace") or ""
        if about != namespace and (about or namespace not in ("default", "kube-system")):
            found.append(fieldpath.invalid("regarding.namespace", about, "does not match event.namespace"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        """Of an event that tells its time only the series may grow."""
        if not old.get("eventTime"):
            return []
        skip = ("series", "metadata")
        return [
            fieldpath.invalid(field, obj.get(field), "field is immutable")
            for field in dict.fromkeys([*obj, *old])
            if field not in skip and not field.startswith("deprecated") and obj.get(field) != old.get(field)
        ]

    def to_stored(self, obj: Object) -> Object:
        converted = {_TO_CORE.get(field, field): value for field, value in obj.items()}
        converted["apiVersion"] = "v1"
        return converted

    def from_stored(self, obj: Object) -> Object:
        converted = {_FROM_CORE.get(field, field): value for field, value in obj.items()}
        converted["apiVersion"] = "events.k8s.io/v1"
        return converted

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return event_fields(self.to_stored(obj))

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return event_row(self.to_stored(obj), now)
