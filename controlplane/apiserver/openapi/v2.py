"""OpenAPI v2: one document for everything, as JSON and as the protobuf that older kubectl insists on for validation.

``routing`` answers ``/openapi/v2`` with ``json()`` or ``protobuf()``, by the ``Accept`` header. Both are built on first use,
in the caller's thread (hundreds of milliseconds: not on the event loop), and kept compressed.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from apimachinery.schema import Schemas
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.openapi import definitions, gnostic, operations
from controlplane.apiserver.openapi.document import Document, pack

Object = dict[str, Any]

JSON = "application/json"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"  # what clients ask for; no valid media type
OFFERS = (JSON, PROTOBUF_ASKED, PROTOBUF)
_REF = definitions.V2.prefix
_BEARER = {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}


class OpenAPIV2:
    """The document of one set of resources in both encodings."""

    def __init__(self, resources: Sequence[Listed], schemas: Schemas, version: str) -> None:
        self._resources = resources
        self._schemas = schemas
        self._version = version
        self._documents: dict[str, Document] = {}

    def json(self) -> Document:
        return self._cached(JSON, lambda: orjson.dumps(self._build()))

    def protobuf(self) -> Document:
        return self._cached(PROTOBUF, lambda: gnostic.encode(self._build()))

    def _cached(self, content_type: str, build: Any) -> Document:
        found = self._documents.get(content_type)
        if found is None:
            found = self._documents[content_type] = pack(build(), content_type)
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
