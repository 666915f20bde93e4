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
_DEEPEST = 150  # levels of a document; what is done with it here goes down by itself, and Python with it
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
    if _is_deeper(document, _DEEPEST):
        raise NotOpenAPIError(f"it has more than {_DEEPEST} levels")
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
            held = definitions.get(names[name])
            definitions[names[name]] = _renamed(definition, names) if held is None else _of_both(held, definition)
    return {**local, "paths": dict(sorted(paths.items())), "definitions": dict(sorted(definitions.items()))}


def _names(part: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, str]:
    """What each definition of ``part`` is called beside ``held``: as one there that says the same, else by a free name.

    What a definition says is also what those say that it refers to, and that may lead in a circle. So all that could be the same
    are taken to be, until one of them refers to two that are not.
    """
    families = {name: _family(name, part, held) for name in part}
    same: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for name, (others, _) in families.items():
        for other in others:
            references = _references_in_both(_plain(part[name]), _plain(held[other]))
            if references is not None:
                same[name, other] = {pair for pair in references if pair[0] in part or pair[0] != pair[1]}
    while wrong := [pair for pair, references in same.items() if not references <= same.keys()]:
        for pair in wrong:
            del same[pair]
    return {name: next((other for other in others if (name, other) in same), free) for name, (others, free) in families.items()}


def _family(name: str, part: Mapping[str, Any], held: Mapping[str, Any]) -> tuple[list[str], str]:
    """Those in ``held`` that have the name or were called anew because of it; and the first such name that is free."""
    others, number, one = [], 1, name
    while one in held or (one in part and one != name):
        if one in held:
            others.append(one)
        number += 1
        one = f"{name}_v{number}"
    return others, one


def _references_in_both(one: Any, other: Any) -> set[tuple[str, str]] | None:
    """What the two refer to in the same places; None when they differ in something else."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return None
        names = _referred(one.get("$ref"), other.get("$ref"))
        pairs = [(each, other[key]) for key, each in one.items() if names is None or key != "$ref"]
        found = {names} if names is not None else set()
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs, found = list(zip(one, other, strict=True)), set()
    else:
        return set() if one == other else None
    for pair in pairs:
        within = _references_in_both(*pair)
        if within is None:
            return None
        found |= within
    return found


def _referred(one: Any, other: Any) -> tuple[str, str] | None:
    if not all(isinstance(each, str) and each.startswith(_DEFINITIONS) for each in (one, other)):
        return None
    return one.removeprefix(_DEFINITIONS), other.removeprefix(_DEFINITIONS)


def _plain(definition: Object) -> Object:
    """Whatever it is the schema of: each server names its own kinds for what all have, as DeleteOptions."""
    return {key: each for key, each in definition.items() if key != _KINDS}


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


def _is_deeper(value: Any, levels: int) -> bool:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(each, dict | list) and (levels == 0 or _is_deeper(each, levels - 1)) for each in within)


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
