"""OpenAPI v3: an index of group versions, and one document for each, built when first asked for.

``routing`` answers ``/openapi/v3`` with ``index()`` and ``/openapi/v3/...`` with ``document(...)``. Building runs in the caller's
thread and takes tens of milliseconds: not on the event loop. Two threads may build the same document; one result stays.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from apimachinery.schema import Schemas
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.openapi import definitions, operations
from controlplane.apiserver.openapi.document import Document, pack

Object = dict[str, Any]

JSON = "application/json"
_REF = definitions.V3.prefix


class OpenAPIV3:
    """The documents of one set of resources."""

    def __init__(self, resources: Sequence[Listed], schemas: Schemas, version: str) -> None:
        """``version`` is the server's git version, such as ``v1.36.0``."""
        self._schemas = schemas
        self._version = version
        self._by_path: dict[str, list[Listed]] = {}
        for each in resources:
            self._by_path.setdefault(_path_of(each), []).append(each)
        self._documents: dict[str, Document] = {}

    def index(self) -> Document:
        """``/openapi/v3``: where each document is. The hash in a URL changes when the document does."""
        return self._cached("", lambda: orjson.dumps({"paths": {path: self._entry(path) for path in sorted(self._by_path)}}))

    def document(self, path: str) -> Document | None:
        """The document of ``api/v1`` or ``apis/apps/v1``; None for anything not served."""
        if path not in self._by_path:
            return None
        return self._cached(path, lambda: orjson.dumps(self._build(path)))

    def hash(self, path: str) -> str | None:
        """Of what a document is made from: making all documents only to hash them would cost every first client a second.
        None for anything not served."""
        if path not in self._by_path:
            return None
        made_from = repr((self._version, [repr(each) for each in self._by_path[path]]))
        return hashlib.sha256(made_from.encode()).hexdigest().upper()

    def _entry(self, path: str) -> Object:
        return {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.hash(path)}"}

    def _cached(self, key: str, build: Any) -> Document:
        found = self._documents.get(key)
        if found is None:
            found = self._documents[key] = pack(build(), JSON)
        return found

    def _build(self, path: str) -> Object:
        items = list(operations.paths(self._by_path[path], self._schemas))
        security = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token"}}
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": {f"/{path}/": _root(path), **{item.path: _path_item(item) for item in sorted(items, key=lambda i: i.path)}},
            "components": {
                "schemas": definitions.describe(operations.roots(items), self._schemas, definitions.V3),
                "securitySchemes": security,
            },
        }


def _path_of(each: Listed) -> str:
    gvk = each.info.gvk
    return f"apis/{gvk.group}/{gvk.version}" if gvk.group else f"api/{gvk.version}"


def _root(path: str) -> Object:
    """The resource list itself."""
    group_version = path.partition("/")[2]
    return {
        "get": {
            "tags": [operations.snake_tag(group_version)],
            "description": "get available resources",
            "operationId": f"get{operations.snake_tag(group_version)}APIResources",
            "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        }
    }


def _path_item(item: operations.PathItem) -> Object:
    body: Object = {each.method: _operation(each, item.group_version) for each in item.operations}
    return {**body, "parameters": [_parameter(name) for name in item.parameters]}


def _operation(each: operations.Operation, group_version: str) -> Object:
    body: Object = {
        "tags": [operations.snake_tag(group_version)],
        "description": each.description,
        "operationId": each.identifier,
        "parameters": [_parameter(name) for name in each.parameters],
    }
    if each.body:
        types = each.consumes or ("*/*",)
        schema = {"schema": {"$ref": _REF + each.body}}
        body["requestBody"] = {"content": dict.fromkeys(types, schema)}
        if each.body_required:
            body["requestBody"]["required"] = True
    answer = {"$ref": _REF + each.answer} if each.answer else {"type": "string"}
    content = {media: {"schema": answer} for media in each.produces}
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    body["responses"] = {str(code): {"description": words[code], "content": content} for code in each.codes}
    body["responses"]["401"] = {"description": "Unauthorized"}
    kind = {"group": each.kind.group, "version": each.kind.version, "kind": each.kind.kind}
    return {**body, "x-kubernetes-action": each.action, "x-kubernetes-group-version-kind": kind}


def _parameter(name: str) -> Object:
    each = operations.PARAMETERS[name]
    body: Object = {"name": each.name, "in": each.place, "description": each.description}
    if each.place == "path":
        body["required"] = True
    return {**body, "schema": {"type": each.type, "uniqueItems": True}}
