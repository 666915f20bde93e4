"""Types as OpenAPI describes them, from the compact schema and its descriptions. Used by ``v3`` and ``v2``.

Reads the source texts rather than compiled schemas: a document needs every field of hundreds of types once, and nothing
of that should stay in memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.schema import Schemas
from apimachinery.schema.loader import read_data

Object = dict[str, Any]

_EXTENSIONS = {
    "list": "x-kubernetes-list-type",
    "keys": "x-kubernetes-list-map-keys",
    "strategy": "x-kubernetes-patch-strategy",
    "merge": "x-kubernetes-patch-merge-key",
    "map": "x-kubernetes-map-type",
}
_INLINE: dict[str, Object] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "object": {"type": "object"},
    "any": {"type": "object"},
}
# Types that are no structs. Version 2 of OpenAPI has no oneOf.
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


@dataclass(frozen=True)
class Style:
    """What differs between the versions: where definitions live, and whether a reference may have siblings."""

    prefix: str
    wrap_references: bool
    one_of: bool

    def scalar(self, name: str) -> Object:
        if name == _QUANTITY:
            return {"oneOf": [{"type": "string"}, {"type": "number"}]} if self.one_of else {"type": "string"}
        if name == _INT_OR_STRING:
            if self.one_of:
                return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
            return {"type": "string", "format": "int-or-string"}
        if name.endswith((".Time", ".MicroTime")):
            return {"type": "string", "format": "date-time"}
        if ".JSON" in name:
            return {}
        return {"type": "object"}


V2 = Style("#/definitions/", wrap_references=False, one_of=False)
V3 = Style("#/components/schemas/", wrap_references=True, one_of=True)


def describe(roots: Iterable[str], schemas: Schemas, style: Style) -> dict[str, Object]:
    """The definitions named by ``roots`` and all that they refer to, by name, sorted."""
    texts = orjson.loads(read_data("descriptions.json"))
    found: dict[str, Object] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        words = orjson.loads(texts.get(name, "{}"))
        found[name], more = _definition(name, words, schemas, style)
        waiting += more
    return dict(sorted(found.items()))


def _definition(name: str, words: Object, schemas: Schemas, style: Style) -> tuple[Object, set[str]]:
    """One definition, and the names it refers to."""
    body: Object = {"description": words[""]} if "" in words else {}
    if not schemas.defines(name):
        return {**body, **style.scalar(name)}, set()
    atomic, required, fields, kinds, _ = orjson.loads(schemas.text(name))
    references: set[str] = set()
    body["type"] = "object"
    if fields:
        body["properties"] = {key: _property(spec, words.get(key, ""), style, references) for key, spec in sorted(fields.items())}
    if required:
        body["required"] = required
    if atomic:
        body["x-kubernetes-map-type"] = "atomic"
    if kinds:
        body["x-kubernetes-group-version-kind"] = [
            {"group": group, "kind": kind, "version": version} for group, version, kind in kinds
        ]
    if "x-kubernetes-unions" in words:
        body["x-kubernetes-unions"] = words["x-kubernetes-unions"]
    return body, references


def _property(spec: Any, description: str, style: Style, references: set[str]) -> Object:
    attributes: Object = {}
    if isinstance(spec, list) and isinstance(spec[1], dict):
        spec, attributes = spec
    body = _type(spec, style, references)
    if "$ref" in body and style.wrap_references:
        body = {"allOf": [body]}
    if description:
        body["description"] = description
    if "default" in attributes:
        body["default"] = attributes["default"]
    body.update({_EXTENSIONS[key]: value for key, value in attributes.items() if key in _EXTENSIONS})
    return body


def _type(spec: Any, style: Style, references: set[str]) -> Object:
    if isinstance(spec, list):
        shape, inner = spec
        key, kind = ("items", "array") if shape == "list" else ("additionalProperties", "object")
        return {"type": kind, key: _type(inner, style, references)}
    kind, _, name = spec.partition("#") if spec.startswith("#") else spec.partition("@")
    if name:
        references.add(name)
        return {"$ref": style.prefix + name}
    return dict(_INLINE[kind])
