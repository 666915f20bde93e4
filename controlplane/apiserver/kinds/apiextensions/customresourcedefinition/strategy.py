"""The life of a CustomResourceDefinition. What it defines is served by ``crd``; here it is defaulted, judged and shown."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.crd import conditions
from controlplane.apiserver.crd.structural import formats
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import unions, validation
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import parts_of, schema_of
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

GROUP = "apiextensions.k8s.io"


class CustomResourceDefinitionStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(GROUP, "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
        "customresourcedefinition",
        False,
        ("crd", "crds"),
        ("api-extensions",),
    )
    columns = (NAME, Column("Created At", "date", description="When the definition was made."))
    has_status = True
    has_generation = True
    allow_unconditional_update = False
    any_finalizer = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind") or ""
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        conversion = spec.get("conversion")
        if conversion is None:
            conversion = spec["conversion"] = {"strategy": "None"}
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
        for one in _schemas(obj):
            unions.normalize(one)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        _note_storage_version(obj)

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        if "status" in obj:
            obj["status"] = {**obj["status"], "storedVersions": list(obj["status"].get("storedVersions") or ())}
        _note_storage_version(obj)

    def begin_delete(self, ctx: Context, obj: Object, options: Object) -> bool:
        """Held until its instances are gone: ``crd.cleanup`` sees to them."""
        conditions.leave(obj, ctx.now)
        return False

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return validation.problems(obj)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return validation.update_problems(obj, old)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return validation.status_problems(obj)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        """Formats that nothing is checked by, unless they were there before."""
        if (old is not None and obj["spec"] == old["spec"]) or unions.problems(obj):
            return []
        before = set(_strange_formats(old)) if old is not None else set()
        return [f'unrecognized format "{name}"' for name in _strange_formats(obj) if name not in before]

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def _schemas(obj: Object) -> Iterator[Object]:
    for version in obj["spec"].get("versions") or ():
        if (found := schema_of(version)) is not None:
            yield found


def _note_storage_version(obj: Object) -> None:
    stored = obj.setdefault("status", {}).setdefault("storedVersions", [])
    storage = next((version.get("name") or "" for version in obj["spec"].get("versions") or () if version.get("storage")), None)
    if storage is not None and storage not in stored:
        stored.append(storage)


def _strange_formats(obj: Object) -> list[str]:
    parts = (part for one in _schemas(obj) for part in parts_of(one) if part.get("type") == "string")
    return [part["format"] for part in parts if part.get("format") and not formats.is_known(part["format"])]
