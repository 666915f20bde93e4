"""OpenAPI documents of other servers beside our own: v2 merged into one, and v3 made of v2 for servers that have no v3.

Pure; ``openapi_service`` calls it, in threads. What is not a document in the least is left out, never half taken.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Object = dict[str, Any]
_DEFINITIONS, _SCHEMAS = "#/definitions/", "#/components/schemas/"
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch"})
_IN_SCHEMA = ("type", "format", "items", "default", "enum", "uniqueItems")
_JSON = "application/json"
_KINDS = "x-kubernetes-group-version-kind"


class NotOpenAPIError(ValueError):
    """What came is no OpenAPI document."""


def part_of(body: bytes, root: str) -> Object:
    """Paths below ``root`` of a v2 document, and the definitions that they need. Raises NotOpenAPIError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise NotOpenAPIError(str(problem)) from None
    if not isinstance(document, dict) or not isinstance(document.get("paths"), dict):
        raise NotOpenAPIError("it has no paths")
    paths = {
        path: item for path, item in document["paths"].items() if f"{path}/".startswith(f"{root}/") and isinstance(item, dict)
    }
    known = document.get("definitions")
    definitions = known if isinstance(known, dict) else {}
    needed: dict[str, Any] = {}
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in needed and isinstance(definitions.get(name), dict):
            needed[name] = definitions[name]
            waiting += _references(needed[name])
    return {**document, "paths": paths, "definitions": dict(sorted(needed.items()))}


def merged_v2(local: Object, parts: Iterable[Object]) -> Object:
    """One document of all. Definitions of one name that say different things get names of their own; paths of others win."""
    paths, definitions = dict(local["paths"]), dict(local["definitions"])
    for part in parts:
        names = _names(part["definitions"], definitions)
        paths.update(_renamed(part["paths"], names))
        for name, definition in part["definitions"].items():
            new, held = _renamed(definition, names), definitions.get(names[name])
            definitions[names[name]] = new if held is None else _of_both(held, new)
    return {**local, "paths": dict(sorted(paths.items())), "definitions": dict(sorted(definitions.items()))}


def _names(part: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, str]:
    """What each definition of ``part`` is called beside ``held``: a free name, or that of one which says the same.

    What it says depends on the names of those that it refers to, also in a circle. So each keeps its name until that turns out
    to be somebody else's, and all are asked again; names only move on, and past the end of ``held`` all are free.
    """
    names = {name: name for name in part}
    moved = True
    while moved:
        moved = False
        for name, definition in part.items():
            while (other := held.get(names[name])) is not None and not _same(other, _renamed(definition, names)):
                names[name] = _next(name, names[name], part)
                moved = True
    return names


def _next(name: str, tried: str, part: Mapping[str, Any]) -> str:
    """The name after ``tried`` of those that ``name`` may get: none that the part itself has."""
    number = int(tried.removeprefix(f"{name}_v")) if tried != name else 1
    while (new := f"{name}_v{number + 1}") in part:
        number += 1
    return new


def _same(one: Any, other: Any) -> bool:
    """Whatever they are the schema of: each server names its own kinds for what all have, as DeleteOptions."""
    return bool({**one, _KINDS: None} == {**other, _KINDS: None})


def _of_both(held: Object, new: Object) -> Object:
    """Two that are the same, for the kinds of both."""
    kinds = [*_objects(held.get(_KINDS)), *_objects(new.get(_KINDS))]
    if not kinds or held.get(_KINDS) == new.get(_KINDS):
        return held
    single = {tuple(str(each.get(part, "")) for part in ("group", "version", "kind")): each for each in kinds}
    return {**held, _KINDS: [each for _, each in sorted(single.items())]}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _renamed(each, names) for key, each in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        changed["$ref"] = _DEFINITIONS + names.get(name, name)
    return changed


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
            yield reference.removeprefix(_DEFINITIONS)
        for each in value.values():
            yield from _references(each)


# ---------------------------------------------------------------------- v3 of v2


def v3_of(part: Object) -> Object:
    """A v2 document in the form of version 3, as ``openapiconv.ConvertV2ToV3`` makes it."""
    return {
        "openapi": "3.0.0",
        "info": part.get("info") or {},
        "paths": {path: _path_item(item) for path, item in part["paths"].items()},
        "components": {"schemas": {name: _schema(each) for name, each in part["definitions"].items()}},
    }


def _path_item(item: Object) -> Object:
    made = {method: _operation(each) for method, each in item.items() if method in _METHODS and isinstance(each, dict)}
    if parameters := [_parameter(each) for each in _objects(item.get("parameters")) if each.get("in") != "body"]:
        made["parameters"] = parameters  # type: ignore[assignment]
    return made


def _operation(each: Object) -> Object:
    made = {key: value for key, value in each.items() if key in ("tags", "description", "operationId") or key.startswith("x-")}
    parameters = _objects(each.get("parameters"))
    if kept := [_parameter(one) for one in parameters if one.get("in") != "body"]:
        made["parameters"] = kept
    for body in (one for one in parameters if one.get("in") == "body"):
        types = each.get("consumes") or (_JSON,)
        made["requestBody"] = {"content": {media: {"schema": _schema(body.get("schema") or {})} for media in types}}
        if body.get("required"):
            made["requestBody"]["required"] = True
    produces = each.get("produces") or (_JSON,)
    made["responses"] = {code: _response(answer, produces) for code, answer in (each.get("responses") or {}).items()}
    return made


def _response(answer: Object, produces: Iterable[str]) -> Object:
    made: Object = {"description": answer.get("description") or ""}
    if answer.get("schema"):
        schema = _schema(answer["schema"])
        made["content"] = {media: {"schema": schema} for media in produces}
    return made


def _parameter(each: Object) -> Object:
    made = {key: value for key, value in each.items() if key not in (*_IN_SCHEMA, "collectionFormat")}
    return {**made, "schema": _schema({key: each[key] for key in _IN_SCHEMA if key in each})}


def _schema(value: Any) -> Any:
    """References lead elsewhere; the rest is said in the same way."""
    if isinstance(value, list):
        return [_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _schema(each) for key, each in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):
        made["$ref"] = reference.replace(_DEFINITIONS, _SCHEMAS, 1)
    return made


def _objects(value: Any) -> list[Object]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
