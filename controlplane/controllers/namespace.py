"""namespace: empties a namespace that was deleted, whatever kinds the server has, then lets it go.

Pods first: what they use (secrets, service accounts, volumes) stays until they have stopped.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, is_deleting, name_of, namespace_of
from apimachinery.resources import NAMESPACES, PODS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.discovery import Resource, discover, list_metadata
from controlplane.controllers.lib.namespace_content import Remains, set_conditions

FINALIZER = "kubernetes"
_PARALLEL = 8
_LOOK_AGAIN_SECONDS = 2.0
_BULK = "deletecollection"


class NamespaceController:
    """One loop over namespaces; woken by them and by the departure of their last pod."""

    name = "namespace-controller"

    def __init__(self, env: Environment, workers: int = 10) -> None:
        self._client, self._clock = env.client, env.clock
        self._namespaces = env.watch(NAMESPACES)
        self._pods = env.watch(PODS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._namespaces.add_handler(on_add=self._loop.add_object, on_update=self._updated, where=is_deleting)
        self._pods.add_handler(on_delete=self._pod_deleted)

    async def run(self) -> None:
        await self._loop.run()

    def _updated(self, old: Object, new: Object) -> None:
        """Only what this controller acts on: its own status writes would wake it for nothing."""
        if (old.get("spec") or {}) != (new.get("spec") or {}):
            self._loop.add_object(new)

    def _pod_deleted(self, pod: Object) -> None:
        namespace = self._namespaces.lister.get(namespace_of(pod))
        if namespace is not None and is_deleting(namespace) and not self._pods.lister.list(namespace_of(pod)):
            self._loop.add_object(namespace)

    async def reconcile(self, key: str) -> float | None:
        cached = self._namespaces.lister.get(key)
        if cached is None or not is_deleting(cached) or FINALIZER not in _finalizers(cached):
            return None
        namespace = clone(cached)
        remains = await self._empty(key)
        await self._write_status(namespace, remains)
        if remains.empty:
            await self._finalize(key)
            return None
        if remains.content_failures:
            raise RuntimeError(f"namespace {key}: {'; '.join(remains.content_failures)}")
        if "pods" in remains.objects and remains.grace_seconds:
            return remains.grace_seconds / 2 + 1  # the last pod's departure wakes this earlier
        return _LOOK_AGAIN_SECONDS

    async def _empty(self, namespace: str) -> Remains:
        """Ask for the deletion of everything and count what is still there."""
        found = await discover(self._client)
        remains = Remains(discovery_failures=found.failures)
        resources = [each for each in found.with_verbs("list", "delete") if each.namespaced]
        for pods in [each for each in resources if each.gvr == PODS]:
            await self._delete_all(pods, namespace, remains)
        if remains.objects or remains.content_failures:
            return remains
        limit = asyncio.Semaphore(_PARALLEL)

        async def one(resource: Resource) -> None:
            async with limit:
                await self._delete_all(resource, namespace, remains)

        await asyncio.gather(*(one(each) for each in resources if each.gvr != PODS))
        return remains

    async def _delete_all(self, resource: Resource, namespace: str, remains: Remains) -> None:
        try:
            if not (await list_metadata(self._client, resource.gvr, namespace)).get("items"):
                return
            if _BULK in resource.verbs:
                await self._client.delete_collection(resource.gvr, namespace, propagation="Background")
            else:
                await self._delete_each(resource, namespace)
            left = (await list_metadata(self._client, resource.gvr, namespace)).get("items") or []
        except StatusError as error:
            if error.code in (404, 405):  # the resource went away, or is one that cannot be emptied
                return
            remains.content_failures.append(f"{resource.gvr.group_resource}: {error.message}")
            return
        remains.count(resource.gvr.group_resource, left)

    async def _delete_each(self, resource: Resource, namespace: str) -> None:
        for item in (await list_metadata(self._client, resource.gvr, namespace)).get("items") or ():
            try:
                await self._client.delete(resource.gvr, name_of(item), namespace, propagation="Background")
            except StatusError as error:
                if error.code != 404:
                    raise

    async def _write_status(self, namespace: Object, remains: Remains) -> None:
        status = namespace.setdefault("status", {})
        changed = status.get("phase") != "Terminating"
        status["phase"] = "Terminating"
        if remains.empty and not status.get("conditions"):
            # It is gone in a moment: a report that nothing remains would only delay it.
            changed = False
        elif set_conditions(namespace, remains, self._clock.now()):
            changed = True
        if changed:
            try:
                await self._client.update_status(NAMESPACES, namespace)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise

    async def _finalize(self, name: str) -> None:
        try:
            live = await self._client.get(NAMESPACES, name)
            if not is_deleting(live):
                return
            live["spec"] = {**(live.get("spec") or {}), "finalizers": [f for f in _finalizers(live) if f != FINALIZER]}
            path = NAMESPACES.path(None, name, "finalize")
            await self._client.raw("PUT", path, body=orjson.dumps(live), headers={"Content-Type": "application/json"})
        except StatusError as error:
            if error.code != 404:
                raise


def _finalizers(namespace: Mapping[str, Any]) -> list[str]:
    return list((namespace.get("spec") or {}).get("finalizers") or ())
