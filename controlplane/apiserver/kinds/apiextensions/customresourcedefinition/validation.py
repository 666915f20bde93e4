"""Is a CustomResourceDefinition valid? Rules and texts of ``pkg/apis/apiextensions/validation``, over its internal form."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.structural.node import UnsupportedSchemaError, read
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import columns, conversion, internal, schemas, unions
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import names as naming
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import Spec, schema_of
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.tolerance import CREATE, Demands, of_update
from controlplane.apiserver.kinds.shared import checks

Object = dict[str, Any]

_SCOPES = ("Cluster", "Namespaced")
_PRESERVES = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
_STORED = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a storage "
    "migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)


def problems(obj: Object) -> list[FieldError]:
    """Of a new definition."""
    if wrong := unions.problems(obj):
        return wrong
    spec = internal.spec_of(obj)
    held, name = spec.source.get("names") or {}, obj["metadata"].get("name") or ""
    found: list[FieldError] = []
    if name and name != f"{held.get('plural') or ''}.{spec.source.get('group') or ''}":
        found.append(fieldpath.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    return found + _check(obj, spec, None, CREATE)


def update_problems(obj: Object, old: Object) -> list[FieldError]:
    """A spec that stays as it is was judged when it was written: schemas are large, and labels change more often."""
    if obj["spec"] == old["spec"]:
        return _check_beside_spec(obj, internal.spec_of(obj), old)
    if wrong := unions.problems(obj):
        return wrong
    spec, before, demands = internal.spec_of(obj), old["spec"], of_update(obj, old)
    found = _check(obj, spec, old, demands)
    held, held_before = spec.source.get("names") or {}, before.get("names") or {}
    if demands.established:
        found += checks.immutable(spec.source.get("scope"), before.get("scope"), "spec.scope")
        found += checks.immutable(held.get("kind"), held_before.get("kind"), "spec.names.kind")
    found += checks.immutable(spec.source.get("group"), before.get("group"), "spec.group")
    return found + checks.immutable(held.get("plural"), held_before.get("plural"), "spec.names.plural")


def status_problems(obj: Object) -> list[FieldError]:
    return naming.check((obj.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _check(obj: Object, spec: Spec, old: Object | None, demands: Demands) -> list[FieldError]:
    found = _check_spec(spec, demands) + _check_beside_spec(obj, spec, old)
    if spec.source.get("preserveUnknownFields") and not demands.preserved:
        found.append(fieldpath.invalid("spec.preserveUnknownFields", True, _PRESERVES))
    return found


def _check_beside_spec(obj: Object, spec: Spec, old: Object | None) -> list[FieldError]:
    found = status_problems(obj) + _check_stored_versions((obj.get("status") or {}).get("storedVersions") or [], spec)
    return found + naming.check_approval(obj, old)


def _check_spec(spec: Spec, demands: Demands) -> list[FieldError]:
    source = spec.source
    preserves = bool(source.get("preserveUnknownFields"))
    found = naming.check_group(source.get("group") or "", "spec.group")
    found += checks.one_of(source.get("scope"), _SCOPES, "spec.scope")
    found += _check_schemas_are_there(spec, demands, preserves=preserves)
    if preserves and any(part.get("default") is not None for schema in spec.schemas() for part in internal.parts_of(schema)):
        text = "must be false in order to use defaults in the schema"
        found.append(fieldpath.invalid("spec.preserveUnknownFields", True, text))
    if not demands.structural and (not preserves or _uses_extensions(spec)):
        demands = replace(demands, structural=True)
    for position, version in enumerate(spec.versions):
        here = f"spec.versions[{position}]"
        name = version.get("name") or ""
        if wrong := names.is_dns1035_label(name):
            found.append(fieldpath.invalid(f"{here}.name", name, ",".join(wrong)))
        found += columns.check_deprecation(version, f"{here}.deprecationWarning")
        found += _check_holder(version, here, "schema", demands, name, has_status=spec.status_enabled(version))
    found += _check_versions(spec)
    held = source.get("names") or {}
    found += naming.check_required(held, "spec.names") + naming.check(held, "spec.names")
    found += _check_holder(spec.common, "spec", "validation", demands, spec.version, has_status=spec.any_status)
    if (said := source.get("conversion")) is not None:
        if said.get("strategy") != "None" and preserves:
            text = "must be None if spec.preserveUnknownFields is true"
            found.append(fieldpath.invalid("spec.conversion.strategy", said.get("strategy") or "", text))
        found += conversion.check(said, "spec.conversion", recognized=demands.review_version, bundle=demands.bundle)
    return found


def _uses_extensions(spec: Spec) -> bool:
    return any(key.startswith("x-kubernetes-") for schema in spec.schemas() for part in internal.parts_of(schema) for key in part)


def _check_schemas_are_there(spec: Spec, demands: Demands, *, preserves: bool) -> list[FieldError]:
    if schema_of(spec.common) is not None:
        return []
    without = [
        (f"spec.versions[{position}].schema.openAPIV3Schema", version)
        for position, version in enumerate(spec.versions)
        if schema_of(version) is None
    ]
    if demands.schema:
        return [fieldpath.required(path) for path, _ in without]
    why = "because otherwise all fields are pruned"
    return [] if preserves else [fieldpath.required(path, why) for path, version in without if version.get("served")]


def _check_holder(
    holder: Mapping[str, Any], path: str, schema_field: str, demands: Demands, version: str, *, has_status: bool
) -> list[FieldError]:
    """Schema, subresources, columns and selectable fields, of one version or of all."""
    found: list[FieldError] = []
    schema = schema_of(holder)
    if schema is not None:
        here = f"{path}.{schema_field}.openAPIV3Schema"
        found += schemas.check(schema, here, demands, has_status=has_status, unchanged=version in demands.same_schemas)
    found += columns.check_subresources(holder.get("subresources") or {}, f"{path}.subresources")
    found += columns.check_columns(holder.get("additionalPrinterColumns") or (), f"{path}.additionalPrinterColumns")
    fields = holder.get("selectableFields") or ()
    if fields and schema is not None:
        here = f"{path}.selectableFields"
        try:
            may_be_many = version in demands.many_fields
            found += columns.check_selectable(fields, read(schema), here, may_be_many=may_be_many)
        except UnsupportedSchemaError as error:
            found.append(fieldpath.invalid(f"{path}.schema.openAPIV3Schema", "", str(error)))
    elif fields:
        each = "may only be set when `version.schema.openAPIV3Schema` is not included"
        text = "may only be set when validations.schema is included" if schema_field == "validation" else each
        found.append(fieldpath.invalid(f"{path}.selectableFields", "", text))
    return found


def _check_versions(spec: Spec) -> list[FieldError]:
    found: list[FieldError] = []
    listed = [version.get("name") or "" for version in spec.versions]
    if len(set(listed)) < len(listed):
        shown = internal.shown_versions(spec.versions)
        found.append(fieldpath.invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in spec.versions) != 1:
        shown = internal.shown_versions(spec.versions)
        found.append(fieldpath.invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    if spec.version and (wrong := names.is_dns1035_label(spec.version)):
        found.append(fieldpath.invalid("spec.version", spec.version, ",".join(wrong)))
    return found


def _check_stored_versions(stored: list[str], spec: Spec) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [fieldpath.invalid(path, None, "must have at least one stored version")]
    found: list[FieldError] = []
    listed = {version.get("name") or "": bool(version.get("storage")) for version in spec.versions}
    for name, storage in listed.items():
        if storage and name not in stored:
            found.append(fieldpath.invalid(path, stored, f"must have the storage version {name}"))
    for position, name in enumerate(stored):
        if name not in listed:
            found.append(fieldpath.invalid(f"{path}[{position}]", name, _STORED.format(name)))
    return found
