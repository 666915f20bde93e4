"""Object metadata: the questions and small edits that every daemon needs. Objects are plain dicts.

Readers never change what they are given, and informers share their objects: take a :func:`clone` before an edit.
Functions named ``set_``, ``add_`` and ``remove_`` edit their argument and say whether that changed anything, so that a
caller writes only when there is something to write.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from apimachinery.times import format_time, parse_time

Object = dict[str, Any]

ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"


def clone(obj: Object) -> Object:
    """A deep copy, by an orjson round trip (25 times quicker than ``copy.deepcopy`` on a pod)."""
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied


def meta(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("metadata") or {}


def name_of(obj: Mapping[str, Any]) -> str:
    return str(meta(obj).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The namespace, or an empty string for cluster-scoped objects."""
    return str(meta(obj).get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    return str(meta(obj).get("uid") or "")


def resource_version(obj: Mapping[str, Any]) -> str:
    return str(meta(obj).get("resourceVersion") or "")


def generation(obj: Mapping[str, Any]) -> int:
    return int(meta(obj).get("generation") or 0)


def key_of(obj: Mapping[str, Any]) -> str:
    """``namespace/name``, or ``name`` for cluster-scoped objects: the form that work queues hold."""
    return make_key(namespace_of(obj), name_of(obj))


def make_key(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """The inverse of :func:`key_of`: (namespace or empty, name)."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return meta(obj).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return meta(obj).get("annotations") or {}


def annotation(obj: Mapping[str, Any], key: str) -> str | None:
    return annotations_of(obj).get(key)


def set_annotation(obj: Object, key: str, value: str) -> bool:
    return _set_entry(obj, "annotations", key, value)


def remove_annotation(obj: Object, key: str) -> bool:
    held = obj.get("metadata", {}).get("annotations") or {}
    return held.pop(key, None) is not None


def set_label(obj: Object, key: str, value: str) -> bool:
    return _set_entry(obj, "labels", key, value)


def _set_entry(obj: Object, field: str, key: str, value: str) -> bool:
    metadata = obj.setdefault("metadata", {})
    entries = metadata.get(field)
    if entries is None:
        entries = metadata[field] = {}
    if entries.get(key) == value:
        return False
    entries[key] = value
    return True


def creation_time(obj: Mapping[str, Any]) -> datetime | None:
    return _time(meta(obj).get("creationTimestamp"))


def deletion_time(obj: Mapping[str, Any]) -> datetime | None:
    """When graceful deletion ends (upstream stores the request's time plus the grace period)."""
    return _time(meta(obj).get("deletionTimestamp"))


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return bool(meta(obj).get("deletionTimestamp"))


# Finalizers


def finalizers_of(obj: Mapping[str, Any]) -> list[str]:
    return list(meta(obj).get("finalizers") or ())


def has_finalizer(obj: Mapping[str, Any], finalizer: str) -> bool:
    return finalizer in (meta(obj).get("finalizers") or ())


def add_finalizer(obj: Object, finalizer: str) -> bool:
    if has_finalizer(obj, finalizer):
        return False
    obj.setdefault("metadata", {}).setdefault("finalizers", []).append(finalizer)
    return True


def remove_finalizer(obj: Object, finalizer: str) -> bool:
    if not has_finalizer(obj, finalizer):
        return False
    kept = [held for held in obj["metadata"]["finalizers"] if held != finalizer]
    if kept:
        obj["metadata"]["finalizers"] = kept
    else:
        del obj["metadata"]["finalizers"]
    return True


# Owners


def owners_of(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(meta(obj).get("ownerReferences") or ())


def controller_of(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """The one owner reference with ``controller: true``, or None."""
    for owner in meta(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid_of(owner)


def owner_reference(owner: Mapping[str, Any], api_version: str = "", kind: str = "") -> dict[str, Any]:
    """A controlling reference to ``owner``. Items of a list response carry no type: then it must be given."""
    return {
        "apiVersion": api_version or owner["apiVersion"],
        "kind": kind or owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def add_owner(obj: Object, reference: dict[str, Any]) -> bool:
    """Add the reference, or replace the one with the same uid."""
    metadata = obj.setdefault("metadata", {})
    owners = list(metadata.get("ownerReferences") or ())
    if reference in owners:
        return False
    metadata["ownerReferences"] = [held for held in owners if held.get("uid") != reference["uid"]] + [reference]
    return True


def remove_owner(obj: Object, uid: str) -> bool:
    owners = owners_of(obj)
    kept = [held for held in owners if held.get("uid") != uid]
    if len(kept) == len(owners):
        return False
    if kept:
        obj["metadata"]["ownerReferences"] = kept
    else:
        del obj["metadata"]["ownerReferences"]
    return True


# Conditions


def conditions_of(obj: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    return (obj.get("status") or {}).get("conditions") or ()


def get_condition(obj: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """The condition of that type in ``status.conditions``."""
    for condition in conditions_of(obj):
        if condition.get("type") == kind:
            return condition
    return None


def condition_status(obj: Mapping[str, Any], kind: str) -> str:
    """``True``, ``False`` or ``Unknown``; an absent condition is an empty string."""
    condition = get_condition(obj, kind)
    return str(condition.get("status") or "") if condition else ""


def set_condition(
    obj: Object,
    kind: str,
    status: str,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
    stamps: Mapping[str, str] | None = None,
) -> bool:
    """Write one condition into ``obj["status"]["conditions"]``; ``lastTransitionTime`` moves only with ``status``.

    ``stamps`` are further fields such as ``lastUpdateTime`` or ``lastProbeTime``; they are written along with a change but do
    not make one by themselves.
    """
    wanted = {"type": kind, "status": status}
    if reason:
        wanted["reason"] = reason
    if message:
        wanted["message"] = message
    conditions: list[dict[str, Any]] = obj.setdefault("status", {}).setdefault("conditions", [])
    held = next((each for each in conditions if each.get("type") == kind), None)
    if held is not None and all(held.get(field, "") == wanted.get(field, "") for field in ("status", "reason", "message")):
        return False
    same = held is not None and held.get("status") == status
    stamp = (held or {}).get("lastTransitionTime") if same else None
    entry = {**wanted, **(stamps or {}), "lastTransitionTime": stamp or format_time(now)}
    if held is None:
        conditions.append(entry)
    else:
        # Fields that this writer does not know (observedGeneration) survive; an emptied reason does not.
        kept = {field: value for field, value in held.items() if field not in ("reason", "message")}
        conditions[conditions.index(held)] = {**kept, **entry}
    return True


def remove_condition(obj: Object, kind: str) -> bool:
    conditions = list(conditions_of(obj))
    kept = [each for each in conditions if each.get("type") != kind]
    if len(kept) == len(conditions):
        return False
    obj["status"]["conditions"] = kept
    return True
