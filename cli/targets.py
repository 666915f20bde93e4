"""KIND/NAME, as a user writes it, to a collection of the cluster. Shared by the verbs that look at one object."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion, GroupVersionResource
from client.rest import Client


@dataclass(frozen=True, slots=True)
class Target:
    """What the user asked for, resolved to a collection."""

    resource: GroupVersionResource
    kind: str
    namespaced: bool
    name: str


async def resolve(client: Client, argument: str) -> Target:
    """``deployment/web``, ``deploy/web``, ``deployments.apps/web``: by the server's own discovery.

    Groups whose server does not answer are left out. Raises click.UsageError for a form that is not KIND/NAME and
    click.ClickException for a kind the server has not.
    """
    kind, slash, name = argument.partition("/")
    if not slash or not kind or not name:
        raise click.UsageError(f"{argument!r} must have the form KIND/NAME, as in deployment/web")
    resource, entry = await find(client, kind)
    return Target(resource, str(entry["kind"]), bool(entry["namespaced"]), name)


async def find(client: Client, kind: str) -> tuple[GroupVersionResource, Mapping[str, Any]]:
    """``deploy`` or ``deployments.apps`` as the server serves it. Raises click.ClickException."""
    word, _, group = kind.lower().partition(".")
    for resource, entry in await discover(client, tolerant=True):
        names = {entry["name"], entry.get("singularName", ""), entry["kind"].lower(), *entry.get("shortNames", ())}
        if word in names and group in ("", resource.group) and "/" not in entry["name"]:
            return resource, entry
    raise click.ClickException(f'the server doesn\'t have a resource type "{kind}"; see kubectl api-resources')


async def discover(client: Client, *, tolerant: bool = False) -> list[tuple[GroupVersionResource, Mapping[str, Any]]]:
    """Every resource of the preferred versions, the core group first.

    Raises StatusError; ``tolerant`` leaves out groups whose own server fails.
    """
    groups = await _document(client, "/apis")
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups.get("groups", ()))]
    paths = [f"/api/{version}" if "/" not in version else f"/apis/{version}" for version in versions]
    answers = await asyncio.gather(*(_document(client, path) for path in paths), return_exceptions=True)
    documents = []
    for answer in answers:
        if tolerant and isinstance(answer, StatusError) and answer.code >= 500:
            continue  # an APIService without a server must not hide all other kinds
        if isinstance(answer, BaseException):
            raise answer
        documents.append(answer)
    found: list[tuple[GroupVersionResource, Mapping[str, Any]]] = []
    for document in documents:
        version = GroupVersion.parse(document["groupVersion"])
        entries = document.get("resources", ())
        found += [(GroupVersionResource(version.group, version.version, entry["name"]), entry) for entry in entries]
    return found


async def _document(client: Client, path: str) -> Any:
    response = await client.raw("GET", path)
    return json.loads(response)
