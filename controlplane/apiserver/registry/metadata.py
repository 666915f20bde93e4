"""Object metadata: what the system fills in, and what is wrong with what the client wrote. Pure; called by ``store``.

Rules and texts follow k8s.io/apimachinery ``pkg/api/validation/objectmeta.go``.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError, Path
from apimachinery.times import format_time

Object = dict[str, Any]

ANNOTATIONS_LIMIT = 256 * 1024
_META = Path("metadata")
_GC_FINALIZERS = frozenset({"orphan", "foregroundDeletion"})
STANDARD_FINALIZERS = _GC_FINALIZERS | {"kubernetes"}
_IMMUTABLE = "field is immutable"


def fill_system_fields(obj: Object, namespace: str, uid: str, now: datetime) -> None:
    """A new object's identity. What only the system may set is dropped from what the client sent."""
    meta = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"):
        meta.pop(name, None)
    if namespace:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    meta["uid"] = uid
    meta["creationTimestamp"] = format_time(now)


def validate(
    obj: Object, namespaced: bool, name_rule: Callable[[str], list[str]] | None, *, any_finalizer: bool = False
) -> list[FieldError]:
    """Everything wrong with the metadata of an object about to be stored. ``any_finalizer``: they need no domain."""
    meta = obj["metadata"]
    found: list[FieldError] = []
    rule = name_rule or names.is_dns1123_subdomain
    if meta.get("generateName"):
        # the suffix makes any name ending in a dash valid, and shortens what is too long
        found += [
            fieldpath.invalid(_META / "generateName", meta["generateName"], text)
            for text in rule(_masked(str(meta["generateName"])))
        ]
    name = meta.get("name") or ""
    if not name:
        found.append(fieldpath.required(_META / "name", "name or generateName is required"))
    else:
        found += [fieldpath.invalid(_META / "name", name, text) for text in rule(name)]
    namespace = meta.get("namespace") or ""
    if namespaced:
        if not namespace:
            found.append(fieldpath.required(_META / "namespace"))
        else:
            found += [fieldpath.invalid(_META / "namespace", namespace, text) for text in names.is_dns1123_label(namespace)]
    elif namespace:
        found.append(fieldpath.forbidden(_META / "namespace", "not allowed on this type"))
    found += validate_maps(meta)
    found += _owners(meta.get("ownerReferences") or [])
    found += _finalizers(meta.get("finalizers") or [], any_name=any_finalizer)
    return found


def validate_maps(meta: Object) -> list[FieldError]:
    """Everything wrong with labels and annotations."""
    return _labels(meta.get("labels") or {}) + _annotations(meta.get("annotations") or {})


def _masked(prefix: str) -> str:
    return prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _labels(labels: Object) -> list[FieldError]:
    path = _META / "labels"
    found = []
    for key, value in labels.items():
        found += [fieldpath.invalid(path, key, text) for text in names.is_qualified_name(key)]
        found += [fieldpath.invalid(path, value, text) for text in names.is_label_value(value)]
    return found


def _annotations(annotations: Object) -> list[FieldError]:
    path = _META / "annotations"
    found, size = [], 0
    for key, value in annotations.items():
        found += [fieldpath.invalid(path, key, text) for text in names.is_qualified_name(key.lower())]
        size += len(key.encode()) + len(str(value).encode())
    if size > ANNOTATIONS_LIMIT:
        found.append(fieldpath.too_long(path, ANNOTATIONS_LIMIT))
    return found


def _owners(owners: list[Object]) -> list[FieldError]:
    path = _META / "ownerReferences"
    found: list[FieldError] = []
    controller = ""
    for position, owner in enumerate(owners):
        here = path.index(position)
        version = str(owner.get("apiVersion") or "")
        if not version:
            found.append(fieldpath.invalid(here / "apiVersion", version, "version must not be empty"))
        for field, text in (("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")):
            if not owner.get(field):
                found.append(fieldpath.invalid(here / field, owner.get(field) or "", text))
        if owner.get("controller"):
            named = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                text = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {named}'
                )
                found.append(fieldpath.invalid(path, owners, text))
            controller = controller or named
    return found


def _finalizers(finalizers: list[str], *, any_name: bool) -> list[FieldError]:
    path = _META / "finalizers"
    found = []
    for position, finalizer in enumerate(finalizers):
        found += [fieldpath.invalid(path.index(position), finalizer, text) for text in names.is_qualified_name(finalizer)]
        if any_name or finalizer in STANDARD_FINALIZERS:
            continue
        if not names.is_qualified_name(finalizer) and "/" not in finalizer:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(fieldpath.invalid(path.index(position), finalizer, text))
    if set(finalizers) >= _GC_FINALIZERS:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(fieldpath.invalid(path, finalizers, text))
    return found


def inherit_system_fields(obj: Object, old: Object) -> None:
    """What an update leaves to the system: taken from the stored object where the client left it out, or always."""
    meta, stored = obj["metadata"], old["metadata"]
    if not meta.get("uid") and "uid" in stored:
        meta["uid"] = stored["uid"]
    for name in ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in stored:
            meta[name] = stored[name]
        else:
            meta.pop(name, None)
    meta.pop("selfLink", None)


def validate_update(obj: Object, old: Object) -> list[FieldError]:
    """Everything wrong with a change of metadata; the new metadata by itself is for :func:`validate`."""
    meta, stored = obj["metadata"], old["metadata"]
    found = [
        fieldpath.invalid(_META / name, meta.get(name), _IMMUTABLE)
        for name in ("name", "namespace", "uid")
        if (meta.get(name) or "") != (stored.get(name) or "")
    ]
    if stored.get("deletionTimestamp"):
        added = [one for one in meta.get("finalizers") or [] if one not in (stored.get("finalizers") or [])]
        if added:
            quoted = ", ".join(orjson.dumps(one).decode() for one in added)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{quoted}}}"
            found.append(fieldpath.forbidden(_META / "finalizers", text))
    return found
