"""garbage_collector: an object whose owners are all gone goes too; foreground and orphan deletion are carried out here.

Watches the metadata of every deletable resource that discovery names, keeps ``lib/owner_graph``, and looks at the objects
that each change calls for. An owner counts as gone only if its uid is: another object of the same name is another object.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, finalizers_of, is_deleting, uid_of
from client.reflector import Reflector
from client.watch import Event
from component import logs
from component.clock import timeout
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.discovery import Discovered, Resource, discover, get_metadata
from controlplane.controllers.lib.metadata_source import MetadataSource
from controlplane.controllers.lib.owner_graph import Effects, Node, OwnerGraph

_IGNORED = frozenset({"events", "events.events.k8s.io"})  # many, short-lived, and never owned
_DISCOVERY_SECONDS = 30.0
_SYNC_SECONDS = 30.0
_DOUBT_SECONDS = 0.5
"""A dependent is often seen just before its owner, on another watch: waiting spares a request."""
_ABSENT = 2000

_log = logs.get(__name__)


class Monitor:
    """Feeds one collection into the graph; the sink of a reflector."""

    def __init__(self, resource: Resource, collector: "GarbageCollector") -> None:
        self._resource = resource
        self._collector = collector
        self.synced = asyncio.Event()

    async def replace(self, objects: list[dict[str, Any]]) -> None:
        listed = {uid_of(obj) for obj in objects}
        for uid in self._collector.graph.uids_of(self._resource) - listed:
            self._collector.removed(uid)
        for obj in objects:
            self._collector.seen(Node.of(self._resource, obj))
        self.synced.set()

    async def apply(self, events: list[Event]) -> None:
        for kind, obj in events:
            if kind == "DELETED":
                self._collector.removed(uid_of(obj))
            else:
                self._collector.seen(Node.of(self._resource, obj))


class GarbageCollector:
    """Two loops over uids: objects to look at, and owners whose dependents are to be orphaned."""

    name = "garbage-collector-controller"

    def __init__(self, env: Environment, workers: int = 20) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self.graph = OwnerGraph()
        self._looks = Loop("garbage_collector_attempt_to_delete", self.look, env, workers)
        self._orphans = Loop("garbage_collector_attempt_to_orphan", self.orphan, env, max(1, workers // 4))
        self._resources: dict[Resource, asyncio.Task[None]] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._unresolved: set[str] = set()
        self._absent: dict[str, None] = {}  # uids known to be gone; oldest first
        self._started = False

    # What the watches tell

    def seen(self, node: Node) -> None:
        self._take(self.graph.upsert(node))

    def removed(self, uid: str) -> None:
        self._absent[uid] = None
        while len(self._absent) > _ABSENT:
            del self._absent[next(iter(self._absent))]
        self._unresolved.discard(uid)
        self._take(self.graph.remove(uid))

    def _take(self, effects: Effects) -> None:
        for uid in effects.delete:
            self._looks.add(uid)
        for uid in effects.orphan:
            self._orphans.add(uid)
        if self._started:  # before that, owners are still being listed
            for uid in effects.doubtful:
                self._looks.add_after(uid, _DOUBT_SECONDS)

    # Running

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._follow_discovery(group, first=True)
            self._started = True
            for uid in self.graph.doubtful():
                self._looks.add(uid)
            group.create_task(self._looks.run(), name=self.name)
            group.create_task(self._orphans.run(), name=f"{self.name}-orphan")
            while True:
                await self._clock.sleep(_DISCOVERY_SECONDS)
                await self._follow_discovery(group)

    async def _follow_discovery(self, group: asyncio.TaskGroup, *, first: bool = False) -> None:
        """Start and stop watches as resources come and go; a group that cannot be asked keeps what it had."""
        found = None
        while found is None:
            try:
                found = await discover(self._client)
            except (StatusError, ConnectionError) as error:
                _log.warning("Discovery failed, it will be tried again", err=error)
                if not first:
                    return
                await self._clock.sleep(1.0)
        wanted = {each for each in found.with_verbs("list", "watch", "delete") if each.gvr.group_resource not in _IGNORED}
        started = self._start(group, wanted - self._resources.keys())
        self._stop(found, wanted)
        by_kind = {each.group_kind: each for each in wanted}
        if by_kind.keys() - self._by_kind.keys():
            for uid in self._unresolved:
                self._looks.add(uid)
            self._unresolved.clear()
        self._by_kind = by_kind
        await self._wait(started)

    def _start(self, group: asyncio.TaskGroup, resources: set[Resource]) -> list[Monitor]:
        monitors = []
        for each in resources:
            monitor = Monitor(each, self)
            reflector = Reflector(
                f"metadata:{each.gvr.group_resource}", MetadataSource(self._client, each.gvr), monitor, self._clock
            )
            self._resources[each] = group.create_task(reflector.run(), name=reflector.name)
            monitors.append(monitor)
        return monitors

    def _stop(self, found: Discovered, wanted: set[Resource]) -> None:
        for each in list(self._resources):
            if each not in wanted and each.gvr.api_version not in found.failures:
                self._resources.pop(each).cancel()
                for uid in self.graph.uids_of(each):
                    self.removed(uid)

    async def _wait(self, monitors: list[Monitor]) -> None:
        """Missing lists cost requests, not mistakes: unknown owners are asked for one by one."""
        try:
            async with timeout(self._clock, _SYNC_SECONDS):
                for each in monitors:
                    await each.synced.wait()
        except TimeoutError:
            _log.warning("Some resources could not be listed; going on without them")

    # Looking at one object

    async def look(self, uid: str) -> float | None:
        """Delete the object if no owner is left, let go of owners that are gone, or go on with a foreground deletion."""
        node = self.graph.get(uid)
        if node is None or (node.deleting and not node.waits_for_dependents):
            return None
        if node.waits_for_dependents:
            await self._go_on_in_foreground(node)
            return None
        if not node.owners:
            return None
        solid, waiting, gone = await self._classify(node)
        if solid:
            if waiting or gone:
                await self._drop_owners(node, {owner["uid"] for owner in waiting + gone})
            return None
        if waiting and any(True for _ in self.graph.dependents(uid)):
            await self._break_circle(node)
            await self._delete(node, "Foreground")
        else:
            await self._delete(node, self._policy(node))
        return None

    @staticmethod
    def _policy(node: Node) -> str:
        if ORPHAN_FINALIZER in node.finalizers:
            return "Orphan"
        return "Foreground" if FOREGROUND_FINALIZER in node.finalizers else "Background"

    async def _classify(self, node: Node) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Owners that live, owners that wait for their dependents to go, and owners that are gone."""
        found: dict[str, list[Mapping[str, Any]]] = {"solid": [], "waiting": [], "gone": []}
        for owner in node.owners:
            found[await self._state_of(node, owner)].append(owner)
        return found["solid"], found["waiting"], found["gone"]

    async def _state_of(self, node: Node, reference: Mapping[str, Any]) -> str:
        uid = reference["uid"]
        owner = self.graph.get(uid)
        if owner is not None and owner.answers_to(reference, node):
            return "waiting" if owner.waits_for_dependents else "solid"
        group = str(reference.get("apiVersion") or "").rpartition("/")[0]
        resource = self._by_kind.get((group, str(reference.get("kind") or "")))
        if resource is None:  # nobody knows that kind: it may be served again later, so nothing is deleted
            self._unresolved.add(node.uid)
            return "solid"
        if resource.namespaced and not node.namespace:
            self._report_namespace(node, reference)
            return "solid"
        if owner is None and uid in self._absent:
            return "gone"
        return await self._ask(node, reference, resource)

    async def _ask(self, node: Node, reference: Mapping[str, Any], resource: Resource) -> str:
        namespace = node.namespace if resource.namespaced else None
        try:
            live = await get_metadata(self._client, resource.gvr, reference["name"], namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            live = None
        if live is None or uid_of(live) != reference["uid"]:
            if self.graph.get(reference["uid"]) is not None:
                self._report_namespace(node, reference)
            return "gone"
        return "waiting" if is_deleting(live) and FOREGROUND_FINALIZER in finalizers_of(live) else "solid"

    def _report_namespace(self, node: Node, reference: Mapping[str, Any]) -> None:
        shown = f"{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {node.namespace}"
        text = f"ownerRef [{shown}, name: {reference.get('name')}, uid: {reference.get('uid')}] does not exist"
        text += f' in namespace "{node.namespace}"' if node.namespace else ""
        regarding = {
            "apiVersion": node.resource.gvr.api_version,
            "kind": node.resource.kind,
            "namespace": node.namespace,
            "name": node.name,
            "uid": node.uid,
        }
        self._recorder.event(regarding, "Warning", "OwnerRefInvalidNamespace", text, "Collect")

    async def _go_on_in_foreground(self, node: Node) -> None:
        blocking = self.graph.blocking(node.uid)
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND_FINALIZER)
            return
        for each in blocking:
            if not each.deleting:
                self._looks.add(each.uid)

    async def _break_circle(self, node: Node) -> None:
        """Two objects that own each other and both wait: one lets the other go."""
        if not any(each.waits_for_dependents for each in self.graph.dependents(node.uid)):
            return
        owners = [{key: text for key, text in owner.items() if key != "blockOwnerDeletion"} for owner in node.owners]
        await self._patch(node, {"ownerReferences": owners})

    async def _drop_owners(self, node: Node, uids: set[str]) -> None:
        await self._patch(node, {"ownerReferences": [dict(owner) for owner in node.owners if owner["uid"] not in uids]})

    async def _delete(self, node: Node, policy: str) -> None:
        """The version guards against a new owner that the graph has not seen."""
        preconditions = {"uid": node.uid, "resourceVersion": node.version}
        try:
            await self._client.delete(
                node.resource.gvr, node.name, node.namespace or None, propagation=policy, preconditions=preconditions
            )
        except StatusError as error:
            if error.code != 404:
                raise
            self.removed(node.uid)
            return
        _log.v(2, "Deleted", object=str(node), policy=policy)

    async def _patch(self, node: Node, metadata: dict[str, Any]) -> None:
        body = {"metadata": {"uid": node.uid, "resourceVersion": node.version, **metadata}}
        try:
            await self._client.patch(node.resource.gvr, node.name, body, namespace=node.namespace or None)
        except StatusError as error:
            if error.code != 404:
                raise

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        try:
            live = await get_metadata(self._client, node.resource.gvr, node.name, node.namespace or None)
        except StatusError as error:
            if error.code != 404:
                raise
            self.removed(node.uid)
            return
        if uid_of(live) != node.uid or finalizer not in finalizers_of(live):
            return
        kept = [each for each in finalizers_of(live) if each != finalizer]
        body = {"metadata": {"uid": node.uid, "resourceVersion": live["metadata"]["resourceVersion"], "finalizers": kept}}
        await self._client.patch(node.resource.gvr, node.name, body, namespace=node.namespace or None)

    # Orphaning

    async def orphan(self, uid: str) -> float | None:
        """Take the owner out of its dependents, then let it go."""
        node = self.graph.get(uid)
        if node is None or not node.orphans_dependents:
            return None
        await asyncio.gather(*(self._drop_owners(each, {uid}) for each in self.graph.dependents(uid)))
        await self._remove_finalizer(node, ORPHAN_FINALIZER)
        return None
