"""The life of a custom resource in one version, as its definition wants it. Made by ``resource``, driven by ``registry.store``.

Source: k8s.io/apiextensions-apiserver ``pkg/registry/customresource``. The structural schema is compiled when an object first
needs it: hundreds of definitions that nobody uses cost nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.codecs import negotiate
from apimachinery.fieldpath import FieldError
from apimachinery.schema import StructSchema
from apimachinery.schema.check import Findings
from controlplane.apiserver.crd.columns import Columns
from controlplane.apiserver.crd.definition import Definition, Version
from controlplane.apiserver.crd.scale import PathReplicas
from controlplane.apiserver.crd.selectable import SelectableFields
from controlplane.apiserver.crd.structural import Structural
from controlplane.apiserver.registry.metadata import STANDARD_FINALIZERS
from controlplane.apiserver.registry.strategy import Context, Strategy

Object = dict[str, Any]
Compiled = Callable[[str], Structural]
"""The structural schema of a version, by its name."""

PATCHES = (negotiate.JSON_PATCH, negotiate.MERGE_PATCH, negotiate.APPLY_YAML)
_PREFER = (
    "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"
)
_STATUS_KEEPS = ("managedFields", "resourceVersion")


class CustomResourceStrategy(Strategy):
    has_generation = True
    allow_unconditional_update = False
    any_finalizer = True
    patches = PATCHES
    encodings = negotiate.TEXTS

    def __init__(self, definition: Definition, version: Version, compiled: Compiled) -> None:
        self.info = definition.info(version)
        stored = definition.version(definition.storage_version) or version
        self.stored_as = definition.info(stored)
        self.same_fields = not definition.webhook
        self.has_status, self.has_scale = version.has_status, version.scale is not None
        self._version, self._compiled = version.name, compiled
        self._table = Columns(version.columns)
        self.columns = self._table.definitions
        self._selectable = SelectableFields(version.selectable)
        self.selectable_names = self._selectable.names
        self.normalize = self._normalize
        self.own_schema = self._own_schema
        self._scale = PathReplicas(version.scale) if version.scale is not None else None
        self.replicas = self._scale

    @property
    def structural(self) -> Structural:
        return self._compiled(self._version)

    def _normalize(self, obj: Object) -> Findings:
        return self.structural.normalize(obj)

    def _own_schema(self) -> StructSchema:
        return self.structural.apply_schema

    def at(self, definition: Definition, version: Version) -> "CustomResourceStrategy":
        """The same for a definition that differs in its conditions alone."""
        return CustomResourceStrategy(definition, version, self._compiled)

    # ------------------------------------------------------------------ writes

    def default(self, obj: Object) -> None:
        self.structural.default(obj)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return self._problems(ctx, obj, None)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._problems(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._problems(ctx, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        kept = {name: obj["metadata"][name] for name in _STATUS_KEEPS if name in obj["metadata"]}
        held = {name: value for name, value in old["metadata"].items() if name not in _STATUS_KEEPS}
        obj["metadata"] = {**held, **kept}

    def _problems(self, ctx: Context, obj: Object, old: Object | None) -> list[FieldError]:
        found = list(self._type_problems(obj))
        found += self.structural.validate(obj, old)
        if self._scale is not None:
            found += self._scale.problems(obj)
        asked = self.structural.rules(obj, old, found)
        ctx.warnings.extend(asked.warnings)
        return found + asked.errors

    def _type_problems(self, obj: Object) -> list[FieldError]:
        wanted = self.info.gvk
        found = []
        for field, expected in (("apiVersion", wanted.api_version), ("kind", wanted.kind)):
            if (said := obj.get(field)) != expected:
                found.append(fieldpath.invalid(field, said, f"must be {expected}"))
        return found

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        before = set((old or {}).get("metadata", {}).get("finalizers") or ())
        added = sorted(set(obj["metadata"].get("finalizers") or ()) - before)
        unqualified = [
            one for one in added if "/" not in one and one not in STANDARD_FINALIZERS and not names.is_qualified_name(one)
        ]
        return [f'metadata.finalizers: "{one}": {_PREFER}' for one in unqualified]

    def spec_changed(self, obj: Object, old: Object) -> bool:
        """Anything but metadata; where there is a /status, the status has been put back before."""
        keys = obj.keys() | old.keys()
        return any(obj.get(key) != old.get(key) for key in keys if key != "metadata")

    # ------------------------------------------------------------------ reads

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return self._selectable.of(obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return self._table.row(obj, now)


def stored_strategy(definition: Definition, compiled: Compiled) -> CustomResourceStrategy:
    """The storage version's, with the selectable fields of all versions: what is stored is indexed once."""
    version = definition.version(definition.storage_version) or definition.versions[0]
    selectable = {path: None for each in definition.versions for path in each.selectable}
    return CustomResourceStrategy(definition, replace(version, selectable=tuple(selectable)), compiled)
