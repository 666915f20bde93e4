"""What extension servers say of themselves, read: aggregated documents, and resource lists of those that have no such document.

Pure; called by ``documents``. Nothing is believed to have the shape it should have.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from apimachinery.gvk import GroupVersion
from controlplane.apiserver.discovery import AGGREGATED, AGGREGATED_KIND

Object = dict[str, Any]
ACCEPT = ",".join(AGGREGATED.format(version=version) for version in ("v2", "v2beta1"))
"""What is asked for; whoever does not know it answers 406, or 404, or something else."""


def versions_of(body: bytes) -> dict[GroupVersion, Object] | None:
    """The versions in an aggregated document, as members of their groups; None when it is none."""
    document = _object(body)
    if document is None or document.get("kind") != AGGREGATED_KIND:
        return None
    found: dict[GroupVersion, Object] = {}
    for group in _objects(document.get("items")):
        metadata = group.get("metadata")
        name = metadata.get("name") or "" if isinstance(metadata, dict) else ""
        if not isinstance(name, str):
            continue
        for version in _objects(group.get("versions")):
            if isinstance(version.get("version"), str):
                found[GroupVersion(name, version["version"])] = {
                    "version": version["version"],
                    "resources": _objects(version.get("resources")),
                }
    return found


def version_of(body: bytes, version: GroupVersion) -> Object | None:
    """A resource list as a version of an aggregated document; None when it is none."""
    document = _object(body)
    if document is None or document.get("kind") != "APIResourceList":
        return None
    resources: dict[str, Object] = {}
    for row in _objects(document.get("resources")):
        name, _, subresource = str(row.get("name") or "").partition("/")
        if not subresource:
            resources.setdefault(name, {}).update(_resource(row, name, version))
    for row in _objects(document.get("resources")):
        name, _, subresource = str(row.get("name") or "").partition("/")
        if subresource:
            entry = {"subresource": subresource, "responseKind": _kind(row, version), "verbs": _words(row.get("verbs"))}
            missing = {"resource": name, "scope": _scope(row), "singularResource": "", "verbs": []}
            resources.setdefault(name, missing).setdefault("subresources", []).append(entry)
    return {"version": version.version, "resources": list(resources.values())}


def _resource(row: Mapping[str, Any], name: str, version: GroupVersion) -> Object:
    entry: Object = {
        "resource": name,
        "responseKind": _kind(row, version),
        "scope": _scope(row),
        "singularResource": row.get("singularName") or "",
        "verbs": _words(row.get("verbs")),
    }
    for field in ("shortNames", "categories"):
        if words := _words(row.get(field)):
            entry[field] = words
    return entry


def _scope(row: Mapping[str, Any]) -> str:
    return "Namespaced" if row.get("namespaced") else "Cluster"


def _kind(row: Mapping[str, Any], version: GroupVersion) -> Object:
    group = version.group if not row.get("version") else row.get("group") or ""
    return {"group": group, "version": row.get("version") or version.version, "kind": row.get("kind") or ""}


def _object(body: bytes) -> Object | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _objects(value: Any) -> list[Object]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _words(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
