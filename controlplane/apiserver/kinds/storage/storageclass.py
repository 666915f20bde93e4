"""StorageClasses: kinds of volumes that can be provisioned."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

DEFAULT_ANNOTATIONS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_RECLAIM = ("Delete", "Retain")
_MAX_PARAMETERS, _MAX_PARAMETER_BYTES = 512, 256 * 1024
_BINDING = ("Immediate", "WaitForFirstConsumer")


class StorageClassStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storage.k8s.io", "v1", "StorageClass"), "storageclasses", "storageclass", False, short_names=("sc",)
    )
    columns = (
        NAME,
        Column("Provisioner", description="What makes volumes of this class."),
        Column("ReclaimPolicy", description="What becomes of a volume that is released."),
        Column("VolumeBindingMode", description="When volumes are made and bound."),
        Column("AllowVolumeExpansion", description="Whether volumes may grow."),
        AGE,
    )
    returns_deleted = True

    def default(self, obj: Object) -> None:
        if obj.get("reclaimPolicy") is None:
            obj["reclaimPolicy"] = "Delete"
        if obj.get("volumeBindingMode") is None:
            obj["volumeBindingMode"] = "Immediate"

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        provisioner = obj.get("provisioner") or ""
        if provisioner:
            found = checks.each("provisioner", provisioner, names.is_qualified_name(provisioner.lower()))
        else:
            found = [fieldpath.required("provisioner", provisioner)]
        found += _check_parameters(obj.get("parameters") or {})
        found += checks.one_of(obj.get("reclaimPolicy"), _RECLAIM, "reclaimPolicy")
        found += _check_topologies(obj.get("allowedTopologies") or ())
        return found + checks.one_of(obj.get("volumeBindingMode"), _BINDING, "volumeBindingMode")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        changed = [field for field in ("parameters", "provisioner") if (obj.get(field) or {}) != (old.get(field) or {})]
        found = [fieldpath.forbidden(field, f"updates to {field} are forbidden.") for field in changed]
        if obj.get("reclaimPolicy") != old.get("reclaimPolicy"):
            found.append(fieldpath.forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
        return found + checks.immutable(obj.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        annotations = obj["metadata"].get("annotations") or {}
        default = any(annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS)
        return [
            obj["metadata"]["name"] + (" (default)" if default else ""),
            obj.get("provisioner") or "",
            obj.get("reclaimPolicy") or "Delete",
            obj.get("volumeBindingMode") or "Immediate",
            bool(obj.get("allowVolumeExpansion")),
            age_of(obj, now),
        ]


def _check_parameters(parameters: Mapping[str, str]) -> list[FieldError]:
    found: list[FieldError] = []
    if len(parameters) > _MAX_PARAMETERS:
        found.append(fieldpath.too_long("parameters", _MAX_PARAMETERS))
    found += [fieldpath.invalid("parameters", key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        found.append(fieldpath.too_long("parameters", _MAX_PARAMETER_BYTES))
    return found


def _check_topologies(terms: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: list[dict[str, frozenset[str]]] = []
    for position, term in enumerate(terms):
        path = f"allowedTopologies[{position}].matchLabelExpressions"
        keys: dict[str, frozenset[str]] = {}
        for at, expression in enumerate(term.get("matchLabelExpressions") or ()):
            where, key, values = f"{path}[{at}]", expression.get("key") or "", expression.get("values") or ()
            if not values:
                found.append(fieldpath.required(f"{where}.values"))
            doubled = [place for place, value in enumerate(values) if value in values[:place]]
            found += [fieldpath.duplicate(f"{where}.values[{place}]", values[place]) for place in doubled]
            found += checks.label_key(key, f"{where}.key")
            if key in keys:
                found.append(fieldpath.duplicate(f"{where}.key", key))
            keys[key] = frozenset(values)
        if keys in seen:
            found.append(fieldpath.duplicate(path, ""))
        seen.append(keys)
    return found
