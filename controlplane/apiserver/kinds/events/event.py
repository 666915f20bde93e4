"""Events of events.k8s.io/v1: another view of the stored core/v1 Events, and stricter about new ones."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
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
_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}  # in bytes
_LEAST_SERIES = 2
_REQUIRED = ("reportingController", "reportingInstance", "action", "reason")


class NewEventStrategy(Strategy):
    """Same objects, other field names. ``stored_as`` is the core resource, whose strategy keeps them."""

    same_fields = False
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
        controller = obj.get("reportingController") or ""
        found += checks.each("reportingController", controller, names.is_qualified_name(controller))
        for field, longest in _LENGTHS.items():
            if len((obj.get(field) or "").encode()) > longest:
                # upstream looks at the core form, where a note is a message
                shown = "message" if field == "note" else field
                found.append(fieldpath.invalid(shown, "", f"can have at most {longest} characters"))
        if obj.get("type") not in ("Normal", "Warning"):
            found.append(fieldpath.invalid("type", "", f"has invalid value: {obj.get('type') or ''}"))
        series = obj.get("series")
        if series is not None:
            if (series.get("count") or 0) < _LEAST_SERIES:
                found.append(fieldpath.invalid("series.count", "", f"should be at least {_LEAST_SERIES}"))
            if not series.get("lastObservedTime"):
                found.append(fieldpath.required("series.lastObservedTime"))
        old_fields = (("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp"))
        found += [fieldpath.invalid(core, "", "needs to be unset") for field, core in old_fields if obj.get(field)]
        if obj.get("deprecatedCount"):
            found.append(fieldpath.invalid("count", "", "needs to be unset"))
        if any((obj.get("deprecatedSource") or {}).values()):
            found.append(fieldpath.invalid("source", "", "needs to be unset"))
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
