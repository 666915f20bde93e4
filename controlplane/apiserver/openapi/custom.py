"""Custom resources in the words of OpenAPI: what their schemas become in a document. Pure; used by ``v2`` and ``v3``.

Source: k8s.io/apiextensions-apiserver ``pkg/controller/openapi/builder`` and ``v2/conversion.go``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.gvk import GroupVersionKind
from apimachinery.schema import Schemas
from apimachinery.schema.loader import META
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.openapi.definitions import Style
from controlplane.apiserver.openapi.operations import Named

Object = dict[str, Any]

_METADATA = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas "
    "to the latest internal value, and may reject unrecognized values. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint "
    "the client submits requests to. Cannot be updated. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_PRESERVES, _EMBEDS = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_SAID = frozenset(  # of a schema, beside what is in it
    {"type", "format", "title", "description", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"}
    | {"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "maxProperties", "minProperties"}
    | {"required", "enum", "example"}
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A version that is published. ``key`` is equal as long as its description is; ``schema()`` gives its OpenAPI schema."""

    key: tuple[object, ...]
    listed: Listed
    schema: Callable[[], Object]


@dataclass(frozen=True, slots=True)
class _Name:
    name: str


def name_of(gvk: GroupVersionKind) -> str:
    """``com.example.v1.Widget``"""
    return ".".join([*reversed(gvk.group.split(".")), gvk.version, gvk.kind])


class Names:
    """The release's names of kinds, and those of custom resources."""

    def __init__(self, schemas: Schemas, kinds: Sequence[Kind]) -> None:
        self._schemas = schemas
        infos = [each.listed.info for each in kinds]
        lists = (GroupVersionKind(info.gvk.group, info.gvk.version, info.collection_kind) for info in infos)
        self._own = {gvk: _Name(name_of(gvk)) for gvk in (*(info.gvk for info in infos), *lists)}

    def has(self, gvk: GroupVersionKind) -> bool:
        return gvk in self._own or self._schemas.has(gvk)

    def of(self, gvk: GroupVersionKind) -> Named:
        return self._own.get(gvk) or self._schemas.of(gvk)


def definitions(kind: Kind, style: Style) -> dict[str, Object]:
    """The definitions of a kind and of lists of it, by name."""
    info = kind.listed.info
    gvk, listed = info.gvk, GroupVersionKind(info.gvk.group, info.gvk.version, info.collection_kind)
    return {name_of(gvk): _resource(kind.schema(), gvk, style), name_of(listed): _list(gvk, listed, style)}


def _resource(schema: Object, gvk: GroupVersionKind, style: Style) -> Object:
    own: Object = {"x-kubernetes-group-version-kind": [_kind(gvk)]}
    if not schema or (style.one_of is False and schema.get(_PRESERVES)):
        # with more than that older kubectl would take whatever is not listed for unknown
        return {"type": "object", **own}
    body = _schema(schema, style)
    body["properties"] = {**(body.get("properties") or {}), **_type_fields(style)}
    return {**body, **own}


def _list(gvk: GroupVersionKind, listed: GroupVersionKind, style: Style) -> Object:
    fields = _type_fields(style)
    fields["metadata"] = _reference(META + "ListMeta", "Standard list metadata.", style)
    items = {"description": f"List of {gvk.kind} objects.", "type": "array", "items": _bare(name_of(gvk), style)}
    return {
        "description": f"{listed.kind} is a list of {gvk.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"items": items, **fields},
        "x-kubernetes-group-version-kind": [_kind(listed)],
    }


def _kind(gvk: GroupVersionKind) -> Object:
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def _bare(name: str, style: Style) -> Object:
    return {"$ref": style.prefix + name}


def _reference(name: str, description: str, style: Style) -> Object:
    body = _bare(name, style)
    return {"allOf": [body], "description": description} if style.wrap_references else {**body, "description": description}


def _type_fields(style: Style) -> dict[str, Object]:
    return {
        "apiVersion": {"description": _API_VERSION, "type": "string"},
        "kind": {"description": _KIND, "type": "string"},
        "metadata": _reference(META + "ObjectMeta", _METADATA, style),
    }


def _schema(schema: Mapping[str, Any], style: Style) -> Object:
    """A schema and all that is in it, less what the version of OpenAPI cannot say."""
    second = not style.one_of
    body = {key: value for key, value in schema.items() if key in _SAID or key.startswith("x-kubernetes-")}
    inner = _parts(schema, style)
    if not second:
        body.update(_junctions(schema, style))
        if schema.get("nullable"):
            body["nullable"] = True
    elif schema.get("nullable") or schema.get(_PRESERVES):
        inner.pop("items", None)
        inner.pop("properties", None)
        if schema.get("nullable") or schema.get("type") == "object":
            body.pop("type", None)
    if second and body.get("type") == "array" and "items" not in inner:
        del body["type"]
    if second and "required" in body:
        nullable = {name for name, each in (schema.get("properties") or {}).items() if each.get("nullable")}
        body["required"] = [name for name in body["required"] if name not in nullable]
        if not body["required"]:
            del body["required"]
    body.update(inner)
    if schema.get(_EMBEDS) and not (second and schema.get(_PRESERVES)):
        body["properties"] = {**(body.get("properties") or {}), **_type_fields(style)}
    return body


def _parts(schema: Mapping[str, Any], style: Style) -> Object:
    inner: Object = {}
    if schema.get("properties"):
        inner["properties"] = {name: _schema(each, style) for name, each in sorted(schema["properties"].items())}
    if isinstance(schema.get("items"), dict):
        inner["items"] = _schema(schema["items"], style)
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        inner["additionalProperties"] = _schema(more, style)
    elif more is not None and style.one_of:
        inner["additionalProperties"] = more
    return inner


def _junctions(schema: Mapping[str, Any], style: Style) -> Object:
    found: Object = {}
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            found[key] = [_schema(each, style) for each in schema[key]]
    if schema.get("not"):
        found["not"] = _schema(schema["not"], style)
    return found
