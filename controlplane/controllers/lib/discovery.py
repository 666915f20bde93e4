"""Every resource the API server has right now, by discovery. Used by namespace and garbage_collector.

Also the metadata-only form of objects (``PartialObjectMetadata``), which is all that those two need of them.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from client.rest import Client

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class Resource:
    """One collection: its name, the kind in it, and what can be done to it."""

    gvr: GroupVersionResource
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.gvr.group, self.kind


@dataclass(frozen=True, slots=True)
class Discovered:
    """``failures`` maps the group versions that could not be asked to why."""

    resources: tuple[Resource, ...]
    failures: dict[str, str]

    def with_verbs(self, *verbs: str) -> list[Resource]:
        return [each for each in self.resources if each.verbs.issuperset(verbs)]


async def discover(client: Client) -> Discovered:
    """Each group's resources in the preferred version, and those that only other versions have. Raises when the list of
    groups itself cannot be had."""
    groups = orjson.loads(await client.raw("GET", "/apis", headers={"Accept": "application/json"})).get("groups") or []
    wanted = [("/api/v1", "v1")]
    for group in groups:
        preferred = (group.get("preferredVersion") or {}).get("groupVersion")
        versions = [each["groupVersion"] for each in group.get("versions") or ()]
        ordered = [each for each in versions if each == preferred] + [each for each in versions if each != preferred]
        wanted += [(f"/apis/{each}", each) for each in ordered]
    answers = await asyncio.gather(*(client.raw("GET", path, headers={"Accept": "application/json"}) for path, _ in wanted),
                                   return_exceptions=True)  # fmt: skip
    found: dict[tuple[str, str], Resource] = {}
    failures: dict[str, str] = {}
    for (_, group_version), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, StatusError | ConnectionError):
            failures[group_version] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            try:
                resources = _resources(group_version, orjson.loads(answer))
            except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):  # an extension server may say anything
                failures[group_version] = "its list of resources cannot be read"
                continue
            for resource in resources:
                found.setdefault((resource.gvr.group, resource.gvr.resource), resource)
    return Discovered(tuple(found.values()), failures)


def _resources(group_version: str, listed: dict[str, Any]) -> list[Resource]:
    group, _, version = group_version.rpartition("/")
    return [
        Resource(
            GroupVersionResource(entry.get("group") or group, entry.get("version") or version, entry["name"]),
            entry["kind"],
            bool(entry.get("namespaced")),
            frozenset(entry.get("verbs") or ()),
        )
        for entry in listed.get("resources") or ()
        if "/" not in entry["name"]
    ]


async def list_metadata(client: Client, gvr: GroupVersionResource, namespace: str | None = None, **query: str) -> dict[str, Any]:
    """The collection with nothing but metadata in its items."""
    data = await client.raw("GET", gvr.path(namespace), query=query, headers={"Accept": METADATA_LIST})
    parsed: dict[str, Any] = orjson.loads(data)
    return parsed


async def get_metadata(client: Client, gvr: GroupVersionResource, name: str, namespace: str | None = None) -> dict[str, Any]:
    data = await client.raw("GET", gvr.path(namespace, name), headers={"Accept": METADATA})
    parsed: dict[str, Any] = orjson.loads(data)
    return parsed
