"""The schemas of kinds as the API server publishes them (OpenAPI v3), and the kinds of its resources (discovery)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from client.rest import Client
from controlplane.controllers.validatingadmissionpolicy_status.types import MAX_TYPES

_JSON = {"Accept": "application/json"}
_REMEMBERED = 8  # documents; that of apps/v1 takes some megabytes


@dataclass(frozen=True, slots=True)
class Schema:
    """``name`` is that of the kind's definition among all ``definitions`` of its group version."""

    kind: GroupVersionKind
    name: str
    definitions: Mapping[str, Any]


class Schemas:
    """Documents are kept as long as the server says that they are the same."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._documents: dict[str, Mapping[str, Any]] = {}  # by the address, which has the document's hash in it

    async def of_resources(self, rules: Iterable[Iterable[GroupVersionResource]]) -> list[Schema]:
        """Of the kinds that are served, in the order of group, version and kind."""
        kinds: set[GroupVersionKind] = set()
        served: dict[GroupVersion, Mapping[str, str]] = {}
        for rule in rules:
            count = 0
            for resource in rule:
                version = GroupVersion(resource.group, resource.version)
                if version not in served:
                    served[version] = await self._kinds(version)
                if kind := served[version].get(resource.resource):
                    kinds.add(GroupVersionKind(*version, kind))
                    count += 1
                if count == MAX_TYPES:
                    break
            if count == MAX_TYPES:
                break
        found = [await self.of_kind(kind) for kind in sorted(kinds)]
        return [each for each in found if each is not None]

    async def of_kind(self, kind: GroupVersionKind) -> Schema | None:
        """None for a kind that the server does not describe."""
        document = await self._document(GroupVersion(kind.group, kind.version))
        definitions = (document.get("components") or {}).get("schemas") or {}
        wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        for name, schema in definitions.items():
            if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
                return Schema(kind, name, definitions)
        return None

    async def _kinds(self, version: GroupVersion) -> Mapping[str, str]:
        answer = await self._ask(f"/{_path(version)}")
        return {each["name"]: each["kind"] for each in answer.get("resources") or ()}

    async def _document(self, version: GroupVersion) -> Mapping[str, Any]:
        index = await self._ask("/openapi/v3")
        where = ((index.get("paths") or {}).get(_path(version)) or {}).get("serverRelativeURL")
        if not where:
            return {}
        if where not in self._documents:
            path, _, query = where.partition("?")
            found = await self._ask(path, **dict(part.split("=", 1) for part in query.split("&") if "=" in part))
            while len(self._documents) >= _REMEMBERED:
                del self._documents[next(iter(self._documents))]
            self._documents[where] = {"components": {"schemas": (found.get("components") or {}).get("schemas") or {}}}
        return self._documents[where]

    async def _ask(self, path: str, **query: str) -> Mapping[str, Any]:
        """Nothing where the server has nothing."""
        try:
            found: Mapping[str, Any] = orjson.loads(await self._client.raw("GET", path, query=query, headers=_JSON))
        except StatusError as error:
            if error.code in (404, 503):  # not served, or by an extension server that is away
                return {}
            raise
        return found


def _path(version: GroupVersion) -> str:
    return f"apis/{version.group}/{version.version}" if version.group else f"api/{version.version}"
