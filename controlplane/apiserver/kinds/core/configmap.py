"""ConfigMaps: at most 1 MiB of text and bytes, immutable on request."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.binary import decoded_size
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

MAX_BYTES = 1024 * 1024
IMMUTABLE = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", "configmap", True, short_names=("cm",))
    columns = (NAME, Column("Data", description="Number of entries"), AGE)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        found: list[FieldError] = []
        size = 0
        for key, text in data.items():
            found += checks.each(f"data[{key}]", key, names.is_config_key(key))
            if key in binary:
                found.append(fieldpath.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += len(text.encode())
        for key, encoded in binary.items():
            found += checks.each(f"binaryData[{key}]", key, names.is_config_key(key))
            size += decoded_size(encoded)
        if size > MAX_BYTES:
            found.append(fieldpath.too_long("[]", MAX_BYTES))  # upstream's path of the object itself
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = self.validate(ctx, obj)
        if old.get("immutable"):
            if not obj.get("immutable"):
                found.append(fieldpath.forbidden("immutable", IMMUTABLE))
            for field in ("data", "binaryData"):
                if (obj.get(field) or {}) != (old.get(field) or {}):
                    found.append(fieldpath.forbidden(field, IMMUTABLE))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
        return [obj["metadata"]["name"], count, age_of(obj, now)]
