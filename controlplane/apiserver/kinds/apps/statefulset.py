"""StatefulSets: Pods with lasting names and volumes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.persistentvolumeclaim import default_claim
from controlplane.apiserver.kinds.core.pod_template import (
    default_template,
    name_warning,
    template_warnings,
    validate_template_metadata,
)
from controlplane.apiserver.kinds.shared import checks, workload
from controlplane.apiserver.kinds.shared.columns import AGE, CONTAINERS, IMAGES, NAME, age_of, template_cells
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_ORDERS = ("OrderedReady", "Parallel")
_STRATEGIES = ("OnDelete", "RollingUpdate")


class StatefulSetStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("apps", "v1", "StatefulSet"),
        "statefulsets",
        "statefulset",
        True,
        short_names=("sts",),
        categories=("all",),
    )
    columns = (NAME, Column("Ready", description="Number of the pod with ready state"), AGE, CONTAINERS, IMAGES)
    has_status = True
    has_scale = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        for field, value in (("replicas", 1), ("revisionHistoryLimit", 10)):
            if spec.get(field) is None:
                spec[field] = value
        for claim in spec.get("volumeClaimTemplates") or ():
            _default_claim(claim)
        default_template(spec.setdefault("template", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return _check_spec(obj["spec"])

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = _check_spec(obj["spec"])
        new, held = obj["spec"], old["spec"]
        if any(new.get(field) != held.get(field) for field in new.keys() | held.keys() if field not in _MUTABLE):
            listed = ", ".join(f"'{field}'" for field in _MUTABLE[:-1]) + f" and '{_MUTABLE[-1]}'"
            text = f"updates to statefulset spec for fields other than {listed} are forbidden"
            found.append(fieldpath.forbidden("spec", text))
        return found

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        if obj["spec"]["revisionHistoryLimit"] < 0:
            text = "a negative value retains all historical revisions; a value >= 0 is recommended"
            named.append(f"spec.revisionHistoryLimit: {text}")
        return named + template_warnings(obj["spec"].get("template") or {}, "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
        return [obj["metadata"]["name"], ready, age_of(obj, now), *template_cells(spec.get("template") or {})]


def _default_claim(claim: Object) -> None:
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("kind", "PersistentVolumeClaim")
    default_claim(claim)


def _check_spec(spec: Mapping[str, Any]) -> list[FieldError]:
    template = spec.get("template") or {}
    order = spec.get("podManagementPolicy")
    found: list[FieldError] = []
    if order not in _ORDERS:
        found.append(fieldpath.invalid("spec.podManagementPolicy", order, "must be 'OrderedReady' or 'Parallel'"))
    found += _check_strategy(spec["updateStrategy"], "spec.updateStrategy")
    for field in ("replicas", "minReadySeconds"):
        found += checks.not_negative(spec.get(field), f"spec.{field}")
    found += checks.not_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    for field, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        found += checks.one_of(value, ("Delete", "Retain"), f"spec.persistentVolumeClaimRetentionPolicy.{field}")
    found += workload.selector_and_labels(spec, "statefulset")
    # upstream looks no further into the template: its mounts may name volumes that only the claim templates give its pods
    found += validate_template_metadata(template, "spec.template")
    return found + workload.always_restarts(template, "StatefulSet")


def _check_strategy(strategy: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in _STRATEGIES:
        return [fieldpath.invalid(path, dict(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    if kind == "OnDelete":
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [fieldpath.invalid(f"{path}.rollingUpdate", rolling, text)]
    if rolling is None:
        return []
    found = checks.not_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
    down = rolling.get("maxUnavailable")
    if down is not None:
        where = f"{path}.rollingUpdate.maxUnavailable"
        found += workload.number_or_percent(down, where) + workload.at_most_100_percent(down, where)
        if workload.is_zero(down):
            found.append(fieldpath.invalid(where, down, "cannot be 0"))
    return found
