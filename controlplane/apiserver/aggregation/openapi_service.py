"""OpenAPI of everything: this server's documents with those of others. ``assembly.paths`` answers ``/openapi`` from it.

Nothing is merged while nobody else has anything; afterwards each result is kept until what ``documents`` holds changes.
"""

import asyncio
import hashlib
from collections.abc import Callable

import orjson

from apimachinery.gvk import GroupVersion
from component import logs
from controlplane.apiserver.aggregation.documents import Documents
from controlplane.apiserver.aggregation.openapi import NotOpenAPIError, merged_v2, part_of, v3_of
from controlplane.apiserver.aggregation.registered import Registered
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.openapi import gnostic, v2, v3
from controlplane.apiserver.openapi.document import Document, pack

_log = logs.get(__name__)


class MergedOpenAPI:
    def __init__(self, services: APIServices, documents: Documents) -> None:
        self._services, self._documents = services, documents
        self._kept: dict[str, tuple[object, Document]] = {}

    def remote(self, path: str) -> Registered | None:
        """Who describes ``apis/GROUP/VERSION`` himself, if it is another server."""
        one = self._of(path)
        return one if one is not None and one.version in self._documents.v3 else None

    async def v2(self, local: v2.OpenAPIV2, media_type: str) -> Document:
        """In one of ``v2``'s two encodings."""
        own = local.json if media_type == v2.JSON else local.protobuf
        if not self._documents.v2:
            return await asyncio.to_thread(own)
        present = await asyncio.to_thread(local.json)

        def build() -> Document:
            whole = merged_v2(orjson.loads(present.body()), self._parts())
            try:
                encoded = orjson.dumps(whole) if media_type == v2.JSON else gnostic.encode(whole)
            except (KeyError, TypeError, AttributeError, ValueError) as problem:
                _log.warning("What extension servers describe cannot be encoded and is left out", err=problem)
                return own()
            return pack(encoded, v2.JSON if media_type == v2.JSON else v2.PROTOBUF)

        return await self._current(f"v2/{media_type}", present, build)

    async def v3_index(self, index: Callable[[], Document]) -> Document:
        """``/openapi/v3``; ``index`` is of this server's own documents, at present."""
        present = await asyncio.to_thread(index)
        if not self._services.remote:
            return present

        def build() -> Document:
            paths = orjson.loads(present.body())["paths"]
            for version in self._services.remote:
                path = _path(version)
                paths.pop(path, None)
                if (entry := self._documents.v3.get(version)) is not None:
                    paths[path] = entry
                elif (found := self._converted(path)) is not None:
                    paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(found)}"}
            return pack(orjson.dumps({"paths": dict(sorted(paths.items()))}), v3.JSON)

        return await self._current("v3", present, build)

    async def v3_made(self, path: str) -> Document | None:
        """A v3 document made of another server's v2; None where there is none. See :meth:`is_remote`."""
        made = await asyncio.to_thread(self._converted, path)
        return pack(made, v3.JSON) if made is not None else None

    def is_remote(self, path: str) -> bool:
        """Whether this server has no say about ``apis/GROUP/VERSION``."""
        return self._of(path) is not None

    def _of(self, path: str) -> Registered | None:
        if not self._services.remote:
            return None
        match path.split("/"):
            case ["apis", group, version]:
                return self._services.remote.get(GroupVersion(group, version))
            case ["api", version]:
                return self._services.remote.get(GroupVersion("", version))
        return None

    def _converted(self, path: str) -> bytes | None:
        one = self._of(path)
        body = self._documents.v2.get(one.name) if one is not None else None
        if one is None or body is None:
            return None
        try:
            return orjson.dumps(v3_of(part_of(body, one.path)))
        except (NotOpenAPIError, AttributeError, TypeError) as problem:
            _log.warning("What an extension server describes cannot be used", name=one.name, err=problem)
            return None

    def _parts(self) -> list[dict[str, object]]:
        parts = []
        for one in sorted(self._services.remote.values(), key=lambda each: each.name):
            try:
                if (body := self._documents.v2.get(one.name)) is not None:
                    parts.append(part_of(body, one.path))
            except NotOpenAPIError as problem:
                _log.warning("What an extension server describes cannot be used", name=one.name, err=problem)
        return parts

    async def _current(self, key: str, present: Document, build: Callable[[], Document]) -> Document:
        state = present.etag, self._documents.generation, self._services.order
        kept = self._kept.get(key)
        if kept is None or kept[0] != state:
            kept = self._kept[key] = state, await asyncio.to_thread(build)
        return kept[1]


def _path(version: GroupVersion) -> str:
    return f"apis/{version.group}/{version.version}" if version.group else f"api/{version.version}"


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()
