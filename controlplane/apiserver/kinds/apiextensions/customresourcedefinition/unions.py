"""Fields of a schema that hold a schema or something else: ``items``, ``additionalProperties``.

The built-in schema does not look into such unions. What is in them is brought into the form of all schemas here, after decoding.
"""

from collections.abc import Iterator
from typing import Any

from apimachinery import fieldpath, schema
from apimachinery.fieldpath import FieldError
from apimachinery.schema import check
from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.internal import schema_of

Object = dict[str, Any]

_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_NEITHER = "boolean or JSON schema expected"
_NO_SCHEMA = "json: cannot unmarshal {} into Go value of type v1.JSONSchemaProps"
_SAID = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}


def problems(obj: Object) -> list[FieldError]:
    """Schemas that upstream's decoder would not have got past."""
    found = []
    for position, version in enumerate(obj["spec"].get("versions") or ()):
        one = schema_of(version)
        if one is not None and (problem := normalize(one)):
            path = f"spec.versions[{position}].schema.openAPIV3Schema"
            found.append(fieldpath.invalid(path, fieldpath.OMITTED, problem))
    return found


def normalize(one: Object) -> str:
    """Bring the schemas inside ``one`` into their form, in place, as far as they can be. The first that cannot, or nothing."""
    for inner in _plain(one):
        if problem := normalize(inner):
            return problem
    for key in ("items", "additionalProperties", "additionalItems"):
        value = one.get(key)
        if value is None:
            continue
        if key != "items" and isinstance(value, bool):
            continue
        if key != "items" and not isinstance(value, dict):
            return _NEITHER
        for inner in value if isinstance(value, list) else [value]:
            if problem := _normalize_one(inner):
                return problem
    for inner in (one.get("dependencies") or {}).values():
        if isinstance(inner, dict) and (problem := _normalize_one(inner)):
            return problem
        if not isinstance(inner, dict | list):
            return "only JSON schema or array of strings expected"
    return ""


def _normalize_one(inner: Any) -> str:
    if not isinstance(inner, dict):
        return _NO_SCHEMA.format(_SAID.get(type(inner), "null"))
    found = check.normalize(inner, schema.load().named(_SCHEMA))
    return found.type_errors[0] if found.type_errors else normalize(inner)


def _plain(one: Object) -> Iterator[Object]:
    """Schemas that the built-in schema does look into."""
    if one.get("not") is not None:
        yield one["not"]
    for key in ("allOf", "anyOf", "oneOf"):
        yield from one.get(key) or ()
    for key in ("properties", "patternProperties", "definitions"):
        yield from (one.get(key) or {}).values()
