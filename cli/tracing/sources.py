"""Where the records of a journey come from: the API, the API server's audit log, the proxy's journal. Called by ``cli.trace``."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import parse as parse_labels
from apimachinery.resources import ENDPOINT_SLICES, EVENTS, PODS, REPLICA_SETS, SERVICES
from cli.targets import Target
from cli.tracing.timeline import Records
from client.rest import Client

Object = dict[str, Any]

# What an object may own that is worth showing, in the order of ownership.
OWNED = (REPLICA_SETS, PODS)


async def gather(client: Client, target: Target, namespace: str, audit_log: Path | None, journal: str) -> Records:
    """Everything there is about the object and those it owns. Raises StatusError when the object does not exist."""
    where = namespace if target.namespaced else None
    root = await client.get(target.resource, target.name, where)
    objects = [root, *await owned(client, root, where)] if where else [root]
    notes: list[str] = []
    if where:
        objects += await services_of(client, objects, where)
    names = {(str(obj["kind"]), obj["metadata"]["name"]) for obj in objects}
    audit = [] if audit_log is None else await asyncio.to_thread(read_audit, audit_log, names_only(names), notes)
    services = [f"{where}/{obj['metadata']['name']}" for obj in objects if obj["kind"] == "Service"]
    programmed = await read_journal(journal, services, notes) if journal and services else []
    return Records(objects, await events_about(client, names, where), audit, programmed, tuple(notes))


async def owned(client: Client, root: Object, namespace: str) -> list[Object]:
    """Objects whose chain of owners leads to ``root``, owners before what they own."""
    uids = {root["metadata"]["uid"]}
    found: list[Object] = []
    for resource in OWNED:
        for obj in await items(client, resource, namespace):
            owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()}
            if owners & uids:
                uids.add(obj["metadata"]["uid"])
                found.append(obj)
    return found


async def services_of(client: Client, objects: Sequence[Object], namespace: str) -> list[Object]:
    """Services that select a pod among ``objects`` (or are among them), with their slices."""
    pods = [obj for obj in objects if obj["kind"] == "Pod"]
    have = {obj["metadata"]["uid"] for obj in objects}
    services = [service for service in await items(client, SERVICES, namespace) if _selects(service, pods)]
    chosen = {service["metadata"]["name"] for service in services} | {
        obj["metadata"]["name"] for obj in objects if obj["kind"] == "Service"
    }
    slices = [
        piece
        for piece in await items(client, ENDPOINT_SLICES, namespace)
        if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") in chosen
    ]
    return [obj for obj in (*services, *slices) if obj["metadata"]["uid"] not in have]


def _selects(service: Object, pods: Iterable[Object]) -> bool:
    wanted = service["spec"].get("selector")
    if not wanted:
        return False
    selector = parse_labels(",".join(f"{key}={value}" for key, value in wanted.items()))
    return any(selector.matches(pod["metadata"].get("labels") or {}) for pod in pods)


async def items(client: Client, resource: GroupVersionResource, namespace: str) -> list[Object]:
    """A collection with ``kind`` on every item; empty when the server does not serve it."""
    try:
        listed = await client.list(resource, namespace)
    except StatusError as error:
        if error.code == 404:
            return []
        raise
    kind = str(listed["kind"]).removesuffix("List")
    return [{"kind": kind, **item} for item in listed.get("items") or ()]


async def events_about(client: Client, names: set[tuple[str, str]], namespace: str | None) -> list[Object]:
    """Events regarding any of ``names`` (kind, name)."""
    found = []
    for event in await items(client, EVENTS, namespace or "default"):
        regarding = event.get("regarding") or {}
        if (regarding.get("kind"), regarding.get("name")) in names:
            found.append(event)
    return found


def names_only(names: Iterable[tuple[str, str]]) -> frozenset[str]:
    return frozenset(name for _, name in names)


_NAME = re.compile(r'"name":"([^"]+)"')


def read_audit(log: Path, names: frozenset[str], notes: list[str]) -> list[Mapping[str, Any]]:
    """Completed requests about objects called ``names``, from the log and its rotated generations, oldest first.

    Lines are searched as text first: parsing every line of a 20 MB log would take seconds.
    """
    rotated = [file for file in log.parent.glob(f"{log.name}.*") if file.suffix[1:].isdigit()]
    files = [*sorted(rotated, key=lambda file: int(file.suffix[1:]), reverse=True), log]
    found: list[Mapping[str, Any]] = []
    for file in files:
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                about = (line for line in lines if '"ResponseComplete"' in line and not names.isdisjoint(_NAME.findall(line)))
                found.extend(json.loads(line) for line in about)
        except FileNotFoundError:
            notes.append(f"the audit log {file} does not exist: who asked for what is not shown")
        except (OSError, ValueError) as error:
            notes.append(f"the audit log {file} cannot be read: {error}")
    return found


async def read_journal(url: str, services: Sequence[str], notes: list[str]) -> list[Mapping[str, Any]]:
    """What the proxy wrote down about these services (``namespace/name``)."""
    import aiohttp

    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session, session.get(url) as response:
            response.raise_for_status()
            entries = await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        notes.append(f"the proxy's journal at {url} cannot be read ({error}): when rules were programmed is not shown")
        return []
    return [entry for entry in entries if entry.get("service") in services]
