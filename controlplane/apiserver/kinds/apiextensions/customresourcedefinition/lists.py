"""Rules of ``x-kubernetes-list-type`` and ``x-kubernetes-map-type``: one schema at a time."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError, Path

_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_ATOMIC = "must be atomic as item of a list with x-kubernetes-list-type=set"
_NO_DEFAULT = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
_NULLABLE_KEY = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
Schema = Mapping[str, Any]


def check_map_type(schema: Schema, path: str) -> list[FieldError]:
    said = schema.get(_MAP_TYPE)
    if said is None:
        return []
    found = _check_type(schema, path, "object", _MAP_TYPE)
    return found + ([] if said in _MAP_TYPES else [fieldpath.not_supported(f"{path}.{_MAP_TYPE}", said, _MAP_TYPES)])


_MAP_TYPES = ("atomic", "granular")
_LIST_TYPES = ("atomic", "set", "map")


def _check_type(schema: Schema, path: str, wanted: str, why: str) -> list[FieldError]:
    kind, text = schema.get("type") or "", f"must be {wanted} if {why} is specified"
    if kind == wanted:
        return []
    here = f"{path}.type"
    return [fieldpath.invalid(here, kind, text) if kind else fieldpath.required(here, text)]


def check_list_type(schema: Schema, path: str, *, atomic_sets: bool) -> list[FieldError]:
    said, keys = schema.get(_LIST_TYPE), schema.get(_KEYS) or ()
    here = f"{path}.{_LIST_TYPE}"
    found: list[FieldError] = []
    if said is not None:
        found += _check_type(schema, path, "array", _LIST_TYPE)
        found += check_set(schema, path) if atomic_sets and not found else []
        if said not in _LIST_TYPES:
            found.append(fieldpath.not_supported(here, said, _LIST_TYPES))
    if keys and said != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        found.append(fieldpath.required(here, text) if said is None else fieldpath.invalid(here, said, text))
    return found + (_check_map(schema, list(keys), path) if said == "map" else [])


def check_set(schema: Schema, path: str) -> list[FieldError]:
    """What is in a set is one thing: two of them are the same or not."""
    item = schema.get("items")
    if schema.get(_LIST_TYPE) != "set" or not isinstance(item, dict):
        return []
    shown = "null" if item.get(_LIST_TYPE) is None else item[_LIST_TYPE]
    if item.get("type") == "array" and item.get(_LIST_TYPE) not in (None, "atomic"):
        return [fieldpath.invalid(f"{path}.items.{_LIST_TYPE}", shown, _ATOMIC)]
    if item.get("type") == "object" and item.get(_MAP_TYPE) != "atomic":
        return [fieldpath.invalid(f"{path}.items.{_MAP_TYPE}", shown, _ATOMIC)]
    return []


def _check_map(schema: Schema, keys: list[str], path: str) -> list[FieldError]:
    item, here = schema.get("items"), f"{path}.{_KEYS}"
    found: list[FieldError] = []
    if not keys:
        found.append(fieldpath.required(here, "must not be empty if x-kubernetes-list-type is map"))
    if item is None:
        found.append(fieldpath.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
    if not isinstance(item, dict):
        return found
    kind = item.get("type") or ""
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*found, fieldpath.invalid(f"{path}.items.type", kind, text)]
    properties = item.get("properties") or {}
    for position, key in enumerate(keys):
        if key not in properties:
            found.append(fieldpath.invalid(here, keys, "entries must all be names of item properties"))
        elif properties[key].get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            found.append(fieldpath.invalid(f"{path}.items.properties[{key}].type", kind, text))
        if key in keys[:position]:
            found.append(fieldpath.invalid(here, keys, "must not contain duplicate entries"))
    return found


def check_keys(schema: Schema, path: str) -> list[FieldError]:
    """Elements of sets and maps are there, and so are the keys of the latter."""
    item, said = schema.get("items"), schema.get(_LIST_TYPE)
    if not isinstance(item, dict) or said not in ("set", "map"):
        return []
    here = Path(f"{path}.items")
    found: list[FieldError] = []
    if item.get("nullable"):
        found.append(fieldpath.forbidden(here / "nullable", f"cannot be nullable when x-kubernetes-list-type is {said}"))
    properties = item.get("properties") or {}
    for key in (schema.get(_KEYS) or ()) if said == "map" else ():
        if key not in properties:
            continue
        place = (here / "properties").key(key)
        if key not in (item.get("required") or ()) and properties[key].get("default") is None:
            found.append(fieldpath.required(place / "default", _NO_DEFAULT))
        if properties[key].get("nullable"):
            found.append(fieldpath.forbidden(place / "nullable", _NULLABLE_KEY))
    return found
