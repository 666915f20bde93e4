"""resource_quota: counts what a namespace uses into the status of its ResourceQuotas, and again when something has gone.

The API server's admission adds what each new object costs; here everything is counted afresh: for a new or changed quota,
when an object that counted goes or ends, and now and then. Pods and Services come from shared informers, other collections
are followed, metadata only, once a quota names them.
"""

import asyncio
from collections.abc import Iterable

from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, clone, key_of, namespace_of
from apimachinery.objects import pods, quota
from apimachinery.objects.quota import Amounts
from apimachinery.quantity import ZERO, of
from apimachinery.resources import PODS, RESOURCE_QUOTAS, SERVICES
from client.reflector import Reflector
from component import logs
from component.clock import timeout
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.collection_counts import CollectionCounts
from controlplane.controllers.lib.discovery import discover
from controlplane.controllers.lib.metadata_source import MetadataSource

_SYNC_SECONDS = 10.0
_ABSENT_SECONDS = 30.0
"""How long a resource that discovery did not name is not asked for again."""
_QUIET_SECONDS = 0.5
_LONGEST_WAIT = 5.0
"""Admission claims before the object is stored. A count that finds less than was claimed waits until claims have stopped for
a moment, or it would take away what an object on its way has paid for."""

_log = logs.get(__name__)


def settled(held: Object, used: Amounts) -> Object | None:
    """The quota with its status as counted; None when that changes nothing."""
    hard = quota.parsed((held.get("spec") or {}).get("hard"))
    counted = {name: used.get(name, ZERO) for name in hard}
    status = held.get("status") or {}
    if "used" in status and quota.parsed(status.get("hard")) == hard and quota.parsed(status["used"]) == counted:
        return None
    changed = clone(held)
    changed["status"] = {"hard": quota.written(hard), "used": quota.written(counted)}
    return changed


def lowers(held: Object, changed: Object) -> bool:
    """Whether some usage shrinks."""
    before = quota.parsed((held.get("status") or {}).get("used"))
    return any(amount < before.get(name, ZERO) for name, amount in quota.parsed(changed["status"]["used"]).items())


class ResourceQuotaController:
    """One loop over quotas."""

    name = "resourcequota-controller"

    def __init__(self, env: Environment, workers: int = 5, resync: float = 300.0) -> None:
        self._client, self._clock, self._resync = env.client, env.clock, resync
        self._quotas, self._pods, self._services = env.watch(RESOURCE_QUOTAS), env.watch(PODS), env.watch(SERVICES)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._claims: dict[str, tuple[float, float]] = {}  # by quota: when its usage last changed, and since when we wait
        self._followed: dict[str, CollectionCounts] = {}
        self._kinds: dict[str, GroupVersionResource] = {}  # of those that are followed
        self._absent: dict[str, float] = {}
        self._group: asyncio.TaskGroup | None = None
        self._starting = asyncio.Lock()
        self._quotas.add_handler(on_add=self._loop.add_object, on_update=self._changed, on_delete=self._forget)
        self._pods.add_handler(on_update=self._ended, on_delete=self._gone)
        self._services.add_handler(on_update=self._cheaper, on_delete=self._gone)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._loop.run()

    # What the watches tell

    def _changed(self, old: Object, new: Object) -> None:
        if (old.get("status") or {}).get("used") != (new.get("status") or {}).get("used"):
            self._claims[key_of(new)] = (self._clock.monotonic(), self._claims.get(key_of(new), (0.0, 0.0))[1])
        if old.get("spec") != new.get("spec") or (old.get("status") or {}).get("hard") != (new.get("status") or {}).get("hard"):
            self._loop.add_object(new)

    def _forget(self, held: Object) -> None:
        self._claims.pop(key_of(held), None)

    def _ended(self, old: Object, new: Object) -> None:
        if pods.is_terminal(new) and not pods.is_terminal(old):
            self._gone(new)

    def _cheaper(self, old: Object, new: Object) -> None:
        if old.get("spec") != new.get("spec"):
            self._gone(new)

    def _gone(self, obj: Object) -> None:
        self._recount(namespace_of(obj))

    def _recount(self, namespace: str) -> None:
        for held in self._quotas.lister.list(namespace):
            self._loop.add_object(held)

    # Counting

    async def reconcile(self, key: str) -> float | None:
        held = self._quotas.lister.get_key(key)
        if held is None:
            return None
        changed = settled(held, await self._count(held))
        if changed is None:
            return self._resync
        if lowers(held, changed) and (pause := self._pause(key)):
            return pause
        await self._client.update_status(RESOURCE_QUOTAS, changed)
        self._claims[key] = (0.0, 0.0)
        return self._resync

    def _pause(self, key: str) -> float:
        now = self._clock.monotonic()
        last, since = self._claims.get(key, (0.0, 0.0))
        since = since or now
        self._claims[key] = (last, since)
        quiet = now - last
        if quiet >= _QUIET_SECONDS or now - since >= _LONGEST_WAIT:
            self._claims[key] = (last, 0.0)
            return 0.0
        return _QUIET_SECONDS - quiet + 0.01

    async def _count(self, held: Object) -> Amounts:
        total: Amounts = {}
        for resource in sorted(quota.resources_of((held.get("spec") or {}).get("hard") or {})):
            total = quota.add(total, await self._count_resource(held, resource))
        return total

    async def _count_resource(self, held: Object, resource: str) -> Amounts:
        namespace = namespace_of(held)
        if resource == "pods":
            return self._sum(held, resource, self._pods.lister.list(namespace))
        if resource == "services":
            return self._sum(held, resource, self._services.lister.list(namespace))
        counts = await self._follow(resource)
        if counts is None:
            return {}
        if quota.needs_objects(resource):
            return self._sum(held, resource, (await self._client.list(self._kinds[resource], namespace))["items"])
        if not quota.matches(held, resource, {}):
            return {}
        return {name: of(counts.of(namespace)) for name in (quota.COUNT + resource, resource)}

    def _sum(self, held: Object, resource: str, objects: Iterable[Object]) -> Amounts:
        now = self._clock.now()
        total: Amounts = {}
        for obj in objects:
            if quota.matches(held, resource, obj):
                total = quota.add(total, quota.usage(resource, obj, now))
        return total

    # Following collections

    async def _follow(self, resource: str) -> CollectionCounts | None:
        """The counts of ``resource.group``; None when the server has no such thing."""
        async with self._starting:
            if resource not in self._followed and not await self._start(resource):
                return None
        counts = self._followed[resource]
        async with timeout(self._clock, _SYNC_SECONDS):
            await counts.synced.wait()
        return counts

    async def _start(self, resource: str) -> bool:
        now = self._clock.monotonic()
        if now - self._absent.get(resource, -_ABSENT_SECONDS) < _ABSENT_SECONDS or self._group is None:
            return False
        found = await discover(self._client)
        for each in found.with_verbs("list", "watch"):
            if each.gvr.group_resource == resource and each.namespaced:
                counts = CollectionCounts(self._recount)
                reflector = Reflector(f"quota:{resource}", MetadataSource(self._client, each.gvr), counts, self._clock)
                self._followed[resource], self._kinds[resource] = counts, each.gvr
                self._group.create_task(reflector.run(), name=reflector.name)
                return True
        self._absent[resource] = now
        return False
