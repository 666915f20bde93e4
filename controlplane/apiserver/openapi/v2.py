"""OpenAPI v2: one document for everything, as JSON and as the protobuf that older kubectl insists on for validation.

``routing`` answers ``/openapi/v2`` with ``json()`` or ``protobuf()``, by the ``Accept`` header. Both are built on first use,
in the caller's thread (hundreds of milliseconds: not on the event loop), and kept compressed. Built-in resources stay what they
are: when custom resources change, only their pieces are made anew, each once, and joined with the rest.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.schema import Schemas
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.openapi import definitions, gnostic, operations
from controlplane.apiserver.openapi.custom import Kind, Names
from controlplane.apiserver.openapi.custom import definitions as custom_definitions
from controlplane.apiserver.openapi.document import Document, pack

Object = dict[str, Any]

JSON = "application/json"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"  # what clients ask for; no valid media type
OFFERS = (JSON, PROTOBUF_ASKED, PROTOBUF)
_REF = definitions.V2.prefix
_BEARER = {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}


@dataclass(frozen=True, slots=True)
class _Piece:
    """One custom resource, compressed: members of ``paths`` and of ``definitions`` in JSON, and both as protobuf."""

    paths: bytes
    definitions: bytes
    protobuf: bytes


class OpenAPIV2:
    """The document of one set of resources in both encodings."""

    def __init__(
        self, resources: Sequence[Listed], schemas: Schemas, version: str, custom: Callable[[], Sequence[Kind]] = tuple
    ) -> None:
        """``custom`` gives the custom resources of the moment."""
        self._resources = resources
        self._schemas = schemas
        self._version = version
        self._custom = custom
        self._fixed: dict[str, tuple[bytes, ...]] = {}  # of built-in resources: what never changes, compressed
        self._pieces: dict[tuple[object, ...], _Piece] = {}  # of custom ones
        self._documents: dict[str, tuple[object, Document]] = {}

    def json(self) -> Document:
        return self._cached(JSON, self._json)

    def protobuf(self) -> Document:
        return self._cached(PROTOBUF, self._protobuf)

    def _cached(self, content_type: str, build: Callable[[Sequence[_Piece]], bytes]) -> Document:
        kinds = self._custom()
        made_from = tuple(kind.key for kind in kinds)
        found = self._documents.get(content_type)
        if found is None or found[0] != made_from:
            pieces = {kind.key: self._pieces.get(kind.key) or _piece(kind, self._schemas) for kind in kinds}
            self._pieces = pieces
            found = self._documents[content_type] = made_from, pack(build(list(pieces.values())), content_type)
        return found[1]

    def _json(self, pieces: Sequence[_Piece]) -> bytes:
        paths, definitions = self._fixed_parts(JSON)
        parts = [paths, *(each.paths for each in pieces)]
        more = [*(each.definitions for each in pieces), definitions]
        first, second = (b",".join(map(zlib.decompress, each)) for each in (parts, more))
        return b'%b},"definitions":{%b}' % (first, second)

    def _protobuf(self, pieces: Sequence[_Piece]) -> bytes:
        (fixed,) = self._fixed_parts(PROTOBUF)
        return b"".join(map(zlib.decompress, [fixed, *(each.protobuf for each in pieces)]))

    def _fixed_parts(self, content_type: str) -> tuple[bytes, ...]:
        """For JSON the document up to the end of its paths, and from its first definition on."""
        found = self._fixed.get(content_type)
        if found is None:
            whole = self._build()
            parts: tuple[bytes, ...]
            if content_type == PROTOBUF:
                parts = (gnostic.encode(whole),)
            else:
                definitions = orjson.dumps(whole.pop("definitions"))
                paths = orjson.dumps(whole.pop("paths"))
                head = orjson.dumps(whole).removesuffix(b"}")
                parts = b'%b,"paths":%b' % (head, paths.removesuffix(b"}")), definitions.removeprefix(b"{")
            found = self._fixed[content_type] = tuple(zlib.compress(part, 4) for part in parts)
        return found

    def _build(self) -> Object:
        items = sorted(operations.paths(self._resources, self._schemas), key=lambda item: item.path)
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": {item.path: _path_item(item) for item in items},
            "definitions": definitions.describe(operations.roots(items), self._schemas, definitions.V2),
            "securityDefinitions": {"BearerToken": _BEARER},
            "security": [{"BearerToken": []}],
        }


def _piece(kind: Kind, schemas: Schemas) -> _Piece:
    items = operations.paths([kind.listed], Names(schemas, [kind]))
    paths = {item.path: _path_item(item) for item in items}
    described = custom_definitions(kind, definitions.V2)
    inner = [orjson.dumps(each).removeprefix(b"{").removesuffix(b"}") for each in (paths, described)]
    return _Piece(*(zlib.compress(part, 4) for part in (*inner, gnostic.more(paths, described))))


def _path_item(item: operations.PathItem) -> Object:
    body: Object = {each.method: _operation(each, item.group_version) for each in item.operations}
    return {**body, "parameters": [_parameter(name) for name in item.parameters]}


def _operation(each: operations.Operation, group_version: str) -> Object:
    parameters = [_parameter(name) for name in each.parameters]
    if each.body:
        body: Object = {"name": "body", "in": "body", "schema": {"$ref": _REF + each.body}}
        parameters.insert(0, {**body, "required": True} if each.body_required else body)
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    schema = {"$ref": _REF + each.answer} if each.answer else {"type": "string"}
    responses: Object = {str(code): {"description": words[code], "schema": schema} for code in each.codes}
    return {
        "description": each.description,
        "consumes": list(each.consumes or ("*/*",)),
        "produces": list(each.produces),
        "schemes": ["https"],
        "tags": [operations.snake_tag(group_version)],
        "operationId": each.identifier,
        "parameters": parameters,
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": each.action,
        "x-kubernetes-group-version-kind": {"group": each.kind.group, "version": each.kind.version, "kind": each.kind.kind},
    }


def _parameter(name: str) -> Object:
    each = operations.PARAMETERS[name]
    body: Object = {"name": each.name, "in": each.place, "description": each.description, "type": each.type, "uniqueItems": True}
    return {**body, "required": True} if each.place == "path" else body
