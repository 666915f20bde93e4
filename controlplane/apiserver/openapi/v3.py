"""OpenAPI v3: an index of group versions, and one document for each, built when first asked for.

``routing`` answers ``/openapi/v3`` with ``index()`` and ``/openapi/v3/...`` with ``document(...)``. Building runs in the caller's
thread and takes tens of milliseconds: not on the event loop. Two threads may build the same document; one result stays.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.schema import Schemas
from apimachinery.schema.loader import META
from controlplane.apiserver.discovery import Listed
from controlplane.apiserver.openapi import definitions, operations
from controlplane.apiserver.openapi.custom import Kind, Names
from controlplane.apiserver.openapi.custom import definitions as custom_definitions
from controlplane.apiserver.openapi.document import Document, pack

Object = dict[str, Any]

JSON = "application/json"
_REF = definitions.V3.prefix


@dataclass(frozen=True, slots=True, eq=False)
class _Present:
    """What is described now, by path. ``made_from`` is what ``custom`` gave."""

    made_from: Sequence[Kind]
    by_path: dict[str, list[Listed]]
    kinds: dict[str, list[Kind]]


class OpenAPIV3:
    """The documents of one set of resources."""

    def __init__(
        self, resources: Sequence[Listed], schemas: Schemas, version: str, custom: Callable[[], Sequence[Kind]] = tuple
    ) -> None:
        """``version`` is the server's git version, such as ``v1.36.0``. ``custom`` gives the custom resources of the moment, the
        same sequence as long as they are the same."""
        self._schemas = schemas
        self._version = version
        self._custom = custom
        self._fixed: dict[str, list[Listed]] = {}
        for each in resources:
            self._fixed.setdefault(_path_of(each), []).append(each)
        self._present = _Present((), dict(self._fixed), {})
        self._documents: dict[str, tuple[str, Document]] = {}

    def _now(self) -> "_Present":
        kinds = self._custom()
        if self._present.made_from is not kinds:
            by_path = {path: list(found) for path, found in self._fixed.items()}
            at: dict[str, list[Kind]] = {}
            for kind in kinds:
                by_path.setdefault(_path_of(kind.listed), []).append(kind.listed)
                at.setdefault(_path_of(kind.listed), []).append(kind)
            self._present = _Present(kinds, by_path, at)
            self._documents = {path: found for path, found in self._documents.items() if path in by_path}
        return self._present

    def index(self) -> Document:
        """``/openapi/v3``: where each document is. The hash in a URL changes when the document does."""
        entries = {path: self._entry(path) for path in sorted(self._now().by_path)}
        return pack(orjson.dumps({"paths": entries}), JSON)

    def document(self, path: str) -> Document | None:
        """The document of ``api/v1`` or ``apis/apps/v1``; None for anything not served."""
        wanted = self.hash(path)
        if wanted is None:
            return None
        found = self._documents.get(path)
        if found is None or found[0] != wanted:
            found = self._documents[path] = wanted, pack(orjson.dumps(self._build(path)), JSON)
        return found[1]

    def hash(self, path: str) -> str | None:
        """Of what a document is made from: making all documents only to hash them would cost every first client a second.
        None for anything not served."""
        present = self._now()
        if path not in present.by_path:
            return None
        kinds = [kind.key for kind in present.kinds.get(path, ())]
        made_from = repr((self._version, [repr(each) for each in present.by_path[path]], kinds))
        return hashlib.sha256(made_from.encode()).hexdigest().upper()

    def _entry(self, path: str) -> Object:
        return {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.hash(path)}"}

    def _build(self, path: str) -> Object:
        present = self._now()
        kinds = present.kinds.get(path, [])
        items = list(operations.paths(present.by_path[path], Names(self._schemas, kinds)))
        own = {name: body for kind in kinds for name, body in custom_definitions(kind, definitions.V3).items()}
        roots = operations.roots(items) - own.keys()
        if own:
            roots |= {META + "ObjectMeta", META + "ListMeta"}
        security = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token"}}
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": {f"/{path}/": _root(path), **{item.path: _path_item(item) for item in sorted(items, key=lambda i: i.path)}},
            "components": {
                "schemas": {**own, **definitions.describe(roots, self._schemas, definitions.V3)},
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
