"""Fills a snapshot from a live API: one parallel round of bounded reads, and a second one only for what the first calls for.

The only module of ``why`` with I/O. It asks for nothing but GET: lists by pages, without the data of Secrets and ConfigMaps,
and the last lines of logs. What the user may not read is noted, never an error.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, is_deleting, name_of, namespace_of
from apimachinery.objects import pods
from apimachinery.resources import PODS
from client.rest import Client
from why import remains
from why.explainers.pod_containers import wants_log
from why.kinds import KINDS, NEEDS, SCHEDULING
from why.snapshot import Scope, Snapshot

_PAGE = 500
_PAGES = 40
"""20,000 objects of one kind: beyond that the note says that not all were read."""
_AT_ONCE = 12
_LOGS, _LINES, _LOG_BYTES = 8, 8, 8192
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(slots=True)
class Reader:
    """Collects what has been read. Every read happens once, whoever asks for it."""

    client: Client
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    whole: set[Scope] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    logs: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _asked: set[Scope] = field(default_factory=set)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def lists(self, scopes: Iterable[Scope]) -> None:
        """Read collections side by side; those read before are left out."""
        fresh = [each for each in dict.fromkeys(scopes) if each not in self._asked and Scope(each.kind) not in self._asked]
        self._asked.update(fresh)
        await asyncio.gather(*(self.read(each) for each in fresh))

    async def read(self, scope: Scope) -> None:
        """Read one collection, page by page; what prevents it is noted."""
        kind = KINDS[scope.kind]
        token: str | None = None
        try:
            async with self._slots:
                for _ in range(_PAGES):
                    page = await self.client.list(
                        kind.resource,
                        scope.namespace or None,
                        limit=_PAGE,
                        continue_token=token,
                        accept=_METADATA if kind.metadata_only else None,
                    )
                    for item in page.get("items") or ():
                        self.add({**item, "kind": scope.kind})
                    token = (page.get("metadata") or {}).get("continue")
                    if not token:
                        self.whole.add(scope)
                        return
            self.unread[_shown(scope)] = f"only the first {_PAGES * _PAGE} were read"
        except StatusError as error:
            if error.code == 404:
                self.unread[_shown(scope)] = "not served by this cluster"
                self.whole.add(scope)  # there can be none of them
            else:
                self.unread[_shown(scope)] = "may not be read" if error.code == 403 else error.message

    def add(self, obj: Object) -> None:
        self.objects[str(obj["kind"]), namespace_of(obj), name_of(obj)] = obj

    async def get(self, resource: GroupVersionResource, kind: str, name: str, namespace: str = "") -> Object:
        """One object. Raises StatusError when it does not exist or may not be read."""
        found = await self.client.get(resource, name, namespace or None)
        made = {**found, "kind": found.get("kind") or kind}
        self.add(made)
        return made

    async def end_of_log(self, namespace: str, pod: str, container: str, previous: bool) -> None:
        query = {"container": container, "tailLines": str(_LINES), "limitBytes": str(_LOG_BYTES)}
        if previous:
            query["previous"] = "true"
        try:
            async with self._slots:
                data = await self.client.raw("GET", PODS.path(namespace, pod, "log"), query=query, timeout=5.0)
            self.logs[namespace, pod, container] = data.decode(errors="replace")
        except StatusError as error:
            if error.code == 403:
                self.unread["pods/log"] = "may not be read"
        except ConnectionError:
            pass  # the node does not answer, which is told of by its own explanation

    async def remains(self, resource: str, namespace: str) -> None:
        """The metadata of what is left of a collection, under the collection's own name as its kind."""
        name, _, group = resource.partition(".")
        try:
            async with self._slots:
                version = "v1"
                if group:
                    served = await self.client.raw("GET", f"/apis/{group}")
                    version = json.loads(served)["preferredVersion"]["version"]
                gvr = GroupVersionResource(group, version, name)
                page = await self.client.list(gvr, namespace, limit=_PAGE, accept=_METADATA)
        except StatusError as error:
            self.unread[f"{resource} in {namespace}"] = "may not be read" if error.code == 403 else error.message
            return
        for item in page.get("items") or ():
            self.add({"kind": resource, "metadata": item.get("metadata") or {}})

    def snapshot(self) -> Snapshot:
        return Snapshot(list(self.objects.values()), self.client.clock.now(), frozenset(self.whole), self.unread, self.logs)


def _shown(scope: Scope) -> str:
    kind = KINDS[scope.kind]
    if not kind.namespaced:
        return kind.resource.group_resource
    return f"{kind.resource.group_resource} in {scope.namespace or 'all namespaces'}"


def scopes(kinds: Iterable[str], namespace: str) -> list[Scope]:
    """What to list of each kind: one namespace if there is one, and everything of what matters across them."""
    found = []
    for kind in kinds:
        described = KINDS[kind]
        if not described.namespaced or described.everywhere or not namespace:
            found.append(Scope(kind))
        else:
            found.append(Scope(kind, namespace))
    return found


async def around(client: Client, resource: GroupVersionResource, kind: str, name: str, namespace: str) -> tuple[Snapshot, Object]:
    """The object and what its explanation looks at. Raises StatusError when the object itself cannot be read."""
    reader = Reader(client)
    needs = NEEDS.get(kind, ("Event",))
    # all of them end before anything is raised: none may still speak when the client is closed
    found = await asyncio.gather(
        reader.get(resource, kind, name, namespace), reader.lists(scopes(needs, namespace)), return_exceptions=True
    )
    for each in found:
        if isinstance(each, BaseException):
            raise each
    obj = found[0]
    assert isinstance(obj, dict)
    reader.add(obj)
    await _second_round(reader, namespace, obj)
    return reader.snapshot(), obj


async def everything(client: Client, namespace: str) -> Snapshot:
    """All kinds that have explainers, of one namespace or (empty) of all."""
    reader = Reader(client)
    kinds = {each for needs in NEEDS.values() for each in needs} | set(NEEDS)
    await reader.lists(scopes(sorted(kinds), namespace))
    await _second_round(reader, namespace, None)
    return reader.snapshot()


async def roles(client: Client, namespace: str) -> Snapshot:
    """What RBAC decides by, of every namespace if all may be read, else of one."""
    reader = Reader(client)
    await reader.lists(Scope(kind) for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"))
    if namespace:
        missing = [kind for kind in ("Role", "RoleBinding") if Scope(kind) not in reader.whole]
        await asyncio.gather(*(reader.read(Scope(kind, namespace)) for kind in missing))
    return reader.snapshot()


async def _second_round(reader: Reader, namespace: str, obj: Object | None) -> None:
    """Only when needed: the scheduler's whole view for pods without a node, and logs of containers that ended badly."""
    listed = [each for (kind, _, _), each in reader.objects.items() if kind == "Pod"]
    if obj is not None and obj.get("kind") == "Pod":
        listed = [obj]
    elif obj is not None:
        listed = [each for each in listed if _may_matter(reader, obj, each)]
    waiting = any(not pods.node_name(each) and not pods.is_terminal(each) and not is_deleting(each) for each in listed)
    work: list[Any] = []
    if waiting:
        work.append(reader.lists([*(Scope(kind) for kind in SCHEDULING if kind != "Lease"), Scope("Pod"), Scope("Lease")]))
    if obj is not None and obj.get("kind") == "Namespace":
        work += [reader.remains(each, name_of(obj)) for each in remains.resources(obj)[:_AT_ONCE]]
    wanted = [(each, container, previous) for each in listed for container, previous in wants_log(each)][:_LOGS]
    work += [reader.end_of_log(namespace_of(each), name_of(each), container, previous) for each, container, previous in wanted]
    await asyncio.gather(*work)


def _may_matter(reader: Reader, obj: Object, pod: Object) -> bool:
    """Pods of the object's own chain; of kinds that own none, every pod in view."""
    if obj.get("kind") not in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"):
        return True
    uids = {(obj.get("metadata") or {}).get("uid")}
    for _ in range(2):  # Deployment > ReplicaSet, CronJob > Job
        for each in reader.objects.values():
            if _owners(each) & uids:
                uids.add((each.get("metadata") or {}).get("uid"))
    return bool(_owners(pod) & uids)


def _owners(obj: Object) -> set[Any]:
    return {each.get("uid") for each in (obj.get("metadata") or {}).get("ownerReferences") or ()}


def notes(snapshot: Snapshot) -> Sequence[str]:
    """What was not read, for people: the answer may miss what is in there."""
    return [
        f"{what} {why}" if why.startswith(("may", "not")) else f"{what}: {why}"
        for what, why in sorted(snapshot.unread.items())
        if why != "not served by this cluster"
    ]
