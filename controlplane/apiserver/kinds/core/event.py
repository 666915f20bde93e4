"""Events of the core group. This is the stored form; ``kinds.events.event`` serves the same objects as events.k8s.io."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.event_table import EVENT_COLUMNS, SELECTABLE, event_fields, event_row
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

CORE_EVENTS = ResourceInfo(GroupVersionKind("", "v1", "Event"), "events", "event", True, short_names=("ev",))


class EventStrategy(Strategy):
    """Kept for an hour; validated leniently, for components of every age write them."""

    info = CORE_EVENTS
    columns = EVENT_COLUMNS
    selectable_names = SELECTABLE
    allow_create_on_update = True
    name_is_valid = staticmethod(names.is_path_segment)

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        """An event lies in its object's namespace; one about a cluster-scoped object in ``default`` (or kube-system)."""
        namespace = obj["metadata"].get("namespace") or ""
        involved = (obj.get("involvedObject") or {}).get("namespace") or ""
        good = namespace in ("", "default", "kube-system") if not involved else involved == namespace
        if good:
            return []
        return [fieldpath.invalid("involvedObject.namespace", involved, "does not match event.namespace")]

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return event_fields(obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return event_row(obj, now)
