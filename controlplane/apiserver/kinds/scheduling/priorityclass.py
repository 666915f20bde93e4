"""PriorityClasses: names for the importance of pods. Two system classes are made by the server itself."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

HIGHEST_USER_PRIORITY = 10**9
SYSTEM_CLASSES = {"system-cluster-critical": 2 * 10**9, "system-node-critical": 2 * 10**9 + 1000}
_POLICIES = ("Never", "PreemptLowerPriority")


class PriorityClassStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass"),
        "priorityclasses",
        "priorityclass",
        False,
        short_names=("pc",),
    )
    columns = (
        NAME,
        Column("Value", type="integer", description="The value of this priority class."),
        Column("Global-Default", type="boolean", description="Whether pods without a class get this one."),
        AGE,
        Column("PreemptionPolicy", description="Whether pods of this class may preempt others."),
    )
    has_generation = True

    def default(self, obj: Object) -> None:
        if obj.get("preemptionPolicy") is None:
            obj["preemptionPolicy"] = "PreemptLowerPriority"
        obj.setdefault("value", 0)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
        found: list[FieldError] = []
        if name.startswith("system-"):
            if SYSTEM_CLASSES.get(name) != value or obj.get("globalDefault"):
                text = "priority class names with 'system-' prefix are reserved for system use only. error: "
                why = (
                    f"{name} is not a known system priority class"
                    if name not in SYSTEM_CLASSES
                    else f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
                )
                found.append(fieldpath.forbidden("metadata.name", text + why))
        elif value > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            found.append(fieldpath.forbidden("value", text))
        return found + checks.one_of(obj.get("preemptionPolicy"), _POLICIES, "preemptionPolicy")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if (obj.get("value") or 0) != (old.get("value") or 0):
            found.append(fieldpath.forbidden("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            found.append(fieldpath.invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable"))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
        return [obj["metadata"]["name"], obj.get("value") or 0, bool(obj.get("globalDefault")), age_of(obj, now), policy]
