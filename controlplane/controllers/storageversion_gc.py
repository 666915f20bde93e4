"""storageversion_gc: StorageVersions forget API servers that are gone: those whose identity's Lease is no longer there.

A StorageVersion that nobody reports any more is deleted. Upstream's ``pkg/controller/storageversiongc``.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, clone, labels_of, name_of, namespace_of, set_condition
from apimachinery.resources import LEASES
from client.rest import is_not_found
from controlplane.controllers.controller import Environment, Loop

STORAGE_VERSIONS = GroupVersionResource("internal.apiserver.k8s.io", "v1alpha1", "storageversions")
_NAMESPACE = "kube-system"
_LABEL, _SERVER = "apiserver.kubernetes.io/identity", "kube-apiserver"
_EQUAL = "AllEncodingVersionsEqual"


def servers_of(version: Mapping[str, Any]) -> list[str]:
    return [str(each.get("apiServerID")) for each in (version.get("status") or {}).get("storageVersions") or ()]


def without(version: Object, gone: Collection[str], now: datetime) -> Object | None:
    """The StorageVersion as the other servers report it; None if there are none."""
    kept = [each for each in version["status"]["storageVersions"] if each.get("apiServerID") not in gone]
    if not kept:
        return None
    changed = clone(version)
    changed["status"]["storageVersions"] = kept
    _agree(changed, kept, now)
    return changed


def _agree(version: Object, reported: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Upstream's ``SetCommonEncodingVersion``."""
    encodings = {each.get("encodingVersion") for each in reported}
    if len(encodings) == 1:
        version["status"]["commonEncodingVersion"] = next(iter(encodings))
        set_condition(version, _EQUAL, "True", now=now, reason="CommonEncodingVersionSet", message="Common encoding version set")
    else:
        version["status"].pop("commonEncodingVersion", None)
        text = "Common encoding version unset"
        set_condition(version, _EQUAL, "False", now=now, reason="CommonEncodingVersionUnset", message=text)


class StorageVersionGarbageCollector:
    """One loop over StorageVersions; woken by them and by Leases that go."""

    name = "storageversion-garbage-collector-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._versions = env.watch(STORAGE_VERSIONS)
        self._leases = env.informers.informer(LEASES, _NAMESPACE, label_selector=f"{_LABEL}={_SERVER}")
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._versions.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._leases.add_handler(on_delete=self._lease_gone)

    async def run(self) -> None:
        await self._loop.run()

    def _look(self, version: Object) -> None:
        if any(self._leases.lister.get(server, _NAMESPACE) is None for server in servers_of(version)):
            self._loop.add_object(version)

    def _lease_gone(self, lease: Object) -> None:
        for version in self._versions.lister.list():
            if namespace_of(lease) == _NAMESPACE and name_of(lease) in servers_of(version):
                self._loop.add_object(version)

    async def reconcile(self, key: str) -> float | None:
        cached = self._versions.lister.get_key(key)
        if cached is None:
            return None
        gone = {server for server in servers_of(cached) if not await self._lives(server)}
        if not gone:
            return None
        changed = without(cached, gone, self._clock.now())
        if changed is None:
            await self._client.delete(STORAGE_VERSIONS, key)
        else:
            await self._client.update_status(STORAGE_VERSIONS, changed)
        return None

    async def _lives(self, server: str) -> bool:
        """Asked anew: the cache may not have heard of a server that has just come."""
        try:
            lease = await self._client.get(LEASES, server, _NAMESPACE)
        except StatusError as error:
            if not is_not_found(error):
                raise
            return False
        return labels_of(lease).get(_LABEL) == _SERVER
