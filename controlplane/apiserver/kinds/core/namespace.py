"""Namespaces: kept until the namespace controller has emptied them and taken ``kubernetes`` off ``spec.finalizers``."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.kinds.shared.subresource_metadata import take_metadata
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy, Subresource

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Marks with phase Terminating first; the object leaves the store when ``spec.finalizers`` is empty."""

    info = ResourceInfo(
        NAMESPACE,
        "namespaces",
        "namespace",
        False,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    )
    columns = (NAME, Column("Status", description="The status of the namespace"), AGE)
    has_status = True
    name_is_valid = staticmethod(names.is_dns1123_label)
    selectable_names = frozenset({"status.phase"})

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})
        _label_with_name(obj)

    def canonicalize(self, obj: Object) -> None:
        _label_with_name(obj)  # again: the name may have been generated since

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return _check_finalizers(obj)

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        obj["spec"] = old.get("spec") or {}  # only /finalize may change it

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        obj["spec"] = old.get("spec") or {}

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase")
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        if deleting and phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        elif not deleting and phase != "Active":
            detail = "may only be 'Active' if `deletionTimestamp` is empty"
        else:
            return []
        return [fieldpath.invalid("status.phase", phase, detail)]

    def begin_delete(self, ctx: Context, obj: Object, options: Object) -> bool:
        options["gracePeriodSeconds"] = 0
        obj.setdefault("status", {})["phase"] = "Terminating"
        return bool((obj.get("spec") or {}).get("finalizers"))

    def may_remove(self, obj: Object) -> bool:
        return not (obj.get("spec") or {}).get("finalizers")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], (obj.get("status") or {}).get("phase", ""), age_of(obj, now)]


def _label_with_name(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        held = obj["metadata"].get("labels")
        if held is None:
            held = obj["metadata"]["labels"] = {}
        held[NAME_LABEL] = name


def _check_finalizers(obj: Object) -> list[FieldError]:
    found: list[FieldError] = []
    path = "spec.finalizers"  # upstream does not count them
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        problems = names.is_qualified_name(finalizer)
        found += [fieldpath.invalid(path, finalizer, problem) for problem in problems]
        if "/" not in finalizer and finalizer != FINALIZER:
            found.append(
                fieldpath.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
            )
    return found


def _finalize(ctx: Context, stored: Object, body: Object) -> Object:
    take_metadata(stored, body)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    stored["spec"] = {**(stored.get("spec") or {}), "finalizers": list(finalizers)}
    if not finalizers:
        del stored["spec"]["finalizers"]
    return stored


def _validate_finalize(ctx: Context, new: Object, old: Object) -> list[FieldError]:
    return _check_finalizers(new)


NamespaceStrategy.subresources = (Subresource("finalize", NAMESPACE, ("update",), _finalize, _validate_finalize),)
