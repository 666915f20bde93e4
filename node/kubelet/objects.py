"""The API objects that pods refer to, cached for a moment: the kubelet's ObjectSource.

A burst of pods of one Deployment asks for the same configMap many times and pays once. Misses are not cached, so that a
configMap that is created late is seen at the next try. Volumes are refreshed less often than entries expire; how often
follows from how many different objects the pods of this node use (:func:`CachedObjects.refresh_period`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import from_label_selector
from apimachinery.resources import (
    CLUSTER_TRUST_BUNDLES,
    CONFIG_MAPS,
    CSI_DRIVERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VOLUME_ATTACHMENTS,
)
from client.rest import Client
from component.clock import Clock

_TTL = 5.0
_FORGET = 300.0
_QUICKEST_REFRESH = 10.0
_SECONDS_PER_OBJECT = 0.1  # ten reads a second at most, whatever the pods mount

_Key = tuple[str, str, str]


class CachedObjects:
    """Fulfils ``node.kubelet.interface.ObjectSource`` over the API."""

    def __init__(self, client: Client, clock: Clock, ttl: float = _TTL) -> None:
        self._client = client
        self._clock = clock
        self._ttl = ttl
        self._held: dict[_Key, tuple[float, Mapping[str, Any]]] = {}
        self._locks: dict[_Key, asyncio.Lock] = {}

    def refresh_period(self, longest: float) -> float:
        """Seconds between two looks at the objects that a pod has mounted: ten, more when there are many objects."""
        return min(max(_QUICKEST_REFRESH, len(self._held) * _SECONDS_PER_OBJECT), longest)

    async def config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._get(CONFIG_MAPS, namespace, name)

    async def secret(self, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._get(SECRETS, namespace, name)

    async def trust_bundle(self, name: str) -> Mapping[str, Any]:
        return await self._get(CLUSTER_TRUST_BUNDLES, "", name)

    async def trust_bundles(self, signer: str, selector: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        fields = f"spec.signerName={signer}" if signer else None
        selected = str(from_label_selector(selector)) or None
        found = await self._client.list(CLUSTER_TRUST_BUNDLES, field_selector=fields, label_selector=selected)
        items: Sequence[Mapping[str, Any]] = found["items"]
        return items

    async def claim(self, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)

    async def volume(self, name: str) -> Mapping[str, Any]:
        return await self._client.get(PERSISTENT_VOLUMES, name)

    async def csi_driver(self, name: str) -> Mapping[str, Any] | None:
        try:
            return await self._get(CSI_DRIVERS, "", name)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def service_account(self, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._get(SERVICE_ACCOUNTS, namespace, name)

    async def create_certificate_request(self, namespace: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._client.create(POD_CERTIFICATE_REQUESTS, body, namespace)

    async def certificate_request(self, namespace: str, name: str) -> Mapping[str, Any]:
        return await self._client.get(POD_CERTIFICATE_REQUESTS, name, namespace)

    async def runtime_class(self, name: str) -> Mapping[str, Any]:
        return await self._get(RUNTIME_CLASSES, "", name)

    async def volume_attachment(self, name: str) -> Mapping[str, Any]:
        return await self._client.get(VOLUME_ATTACHMENTS, name)

    async def service_account_token(self, namespace: str, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": dict(spec)}
        return await self._client.post_subresource(SERVICE_ACCOUNTS, name, "token", body, namespace)

    async def _get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Mapping[str, Any]:
        key = (gvr.resource, namespace, name)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                until, held = self._held.get(key, (0.0, {}))
                if self._clock.monotonic() < until:
                    return held
                fetched = await self._client.get(gvr, name, namespace or None)
                self._held[key] = (self._clock.monotonic() + self._ttl, fetched)
                return fetched
        finally:
            if not lock.locked() and key in self._locks:
                del self._locks[key]

    def collect(self) -> None:
        """Drop what nobody has asked for in a while; called now and then."""
        now = self._clock.monotonic()
        self._held = {key: entry for key, entry in self._held.items() if entry[0] > now - _FORGET}
