"""What persistent volumes and claims to them have in common: access modes, volume modes, classes, sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import resource_value

STORAGE = "storage"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_VOLUME_MODES = ("Block", "Filesystem")


def access_modes_text(modes: Sequence[str] | None) -> str:
    """``RWO,ROX``: in a fixed order, whatever the order given."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def class_of(obj: Mapping[str, Any]) -> str:
    """The storage class; the annotation is older than the field and still counts."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION) or (obj.get("spec") or {}).get("storageClassName") or "")


def class_warning(obj: Mapping[str, Any]) -> list[str]:
    if CLASS_ANNOTATION not in (obj["metadata"].get("annotations") or {}):
        return []
    return [f'metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute instead']


def check_access_modes(spec: Mapping[str, Any], path: str, missing: str) -> list[FieldError]:
    modes = spec.get("accessModes") or ()
    found = [] if modes else [fieldpath.required(f"{path}.accessModes", missing)]
    unknown = (mode for mode in modes if mode not in _SHORT_MODES)
    found += [fieldpath.not_supported(f"{path}.accessModes", mode, sorted(_SHORT_MODES)) for mode in unknown]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        found.append(fieldpath.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return found


def check_classes(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """``storageClassName``, ``volumeAttributesClassName`` and ``volumeMode``."""
    found: list[FieldError] = []
    for field in ("storageClassName", "volumeAttributesClassName"):
        name = spec.get(field)
        if name:
            found += checks.each(f"{path}.{field}", name, names.is_dns1123_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        found.append(fieldpath.not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES))
    return found


def check_size(amount: Any, path: str) -> list[FieldError]:
    """More than nothing."""
    found = resource_value(STORAGE, amount, path)
    size = quantity.parse(amount)
    if size <= quantity.ZERO:
        found.append(fieldpath.invalid(path, str(size), "must be greater than zero"))
    return found
