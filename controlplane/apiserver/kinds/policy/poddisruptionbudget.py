"""PodDisruptionBudgets: how many pods evictions must leave."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks, workload
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("policy", "v1", "PodDisruptionBudget"),
        "poddisruptionbudgets",
        "poddisruptionbudget",
        True,
        short_names=("pdb",),
    )
    columns = (
        NAME,
        Column("Min Available", description="The minimum number of pods that must be available."),
        Column("Max Unavailable", description="The maximum number of pods that may be unavailable."),
        Column(
            "Allowed Disruptions", type="integer", description="Calculated number of pods that may be disrupted at this time."
        ),
        AGE,
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            found.append(fieldpath.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            value = spec.get(field)
            found += workload.number_or_percent(value, f"spec.{field}") + workload.at_most_100_percent(value, f"spec.{field}")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            found.append(fieldpath.not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return found + checks.label_selector(spec.get("selector"), "spec.selector")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        return [
            obj["metadata"]["name"],
            "N/A" if least is None else str(least),
            "N/A" if most is None else str(most),
            status.get("disruptionsAllowed") or 0,
            age_of(obj, now),
        ]
