"""Which API servers there are: who is behind the ``kubernetes`` Service, and the Lease that names each of them.

Used by ``poststart``, every ten seconds. Each server keeps a key of its own alive under ``/registry/masterleases/``; the
addresses of all living keys are the Service's endpoints, so a server that died leaves them by itself. Upstream's places,
times and values: ``pkg/controlplane/reconcilers/lease.go`` and ``pkg/controlplane/apiserver/server.go``.
"""

import base64
import hashlib
import ipaddress
import os
import uuid
from datetime import datetime, timedelta
from typing import Any

import orjson

from apimachinery.times import format_micro_time, parse_time
from controlplane.apiserver.storage.interface import Backend, Delete, Put

LEASES = "/registry/masterleases/"
TTL = 15  # seconds that an address outlives its server
IDENTITY_SECONDS = 3600  # what an identity Lease promises; it is renewed with everything else here
IDENTITY_LABEL = "apiserver.kubernetes.io/identity"

Object = dict[str, Any]


class Addresses:
    """The addresses of all servers that live. An exclusive backend has one server, which need not write to know that."""

    def __init__(self, backend: Backend, own: str) -> None:
        self._backend, self.own = backend, own
        self._generation = 0

    async def renew(self) -> list[str]:
        """Say that this server lives; the addresses of all that do, in order. Raises StorageUnavailableError."""
        if self._backend.exclusive:
            return [self.own]
        self._generation += 1
        await self._backend.commit((), (Put(LEASES + self.own, _value(self.own, self._generation), TTL),))
        return await self._living()

    async def leave(self) -> list[str]:
        """This server is going; the addresses of those that stay."""
        if self._backend.exclusive:
            return []
        await self._backend.commit((), (Delete(LEASES + self.own),))
        return await self._living()

    async def _living(self) -> list[str]:
        found = await self._backend.range(LEASES)
        return in_order(item.key.removeprefix(LEASES) for item in found.items)


def in_order(addresses: Any) -> list[str]:
    """Each once, by number; every server must come to the same list."""
    return [str(one) for one in sorted({ipaddress.ip_address(text) for text in addresses}, key=lambda one: (one.version, one))]


def _value(address: str, generation: int) -> bytes:
    return orjson.dumps(
        {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"generation": generation},
            "subsets": [{"addresses": [{"ip": address}]}],
        }
    )


class Identity:
    """This server's Lease in kube-system. Upstream names it by the host; several servers of one host have a port each."""

    def __init__(self, address: str, port: int, worker: int = 0) -> None:
        self._host = os.uname().nodename
        where = f"{self._host} {address} {port} {worker}"
        digest = hashlib.sha256(where.encode()).digest()[:16]
        self.name = f"apiserver-{base64.b32encode(digest).decode().rstrip('=').lower()}"
        self._holder = f"{self.name}_{uuid.uuid4()}"

    def lease(self, now: datetime) -> Object:
        labels = {IDENTITY_LABEL: "kube-apiserver", "kubernetes.io/hostname": self._host}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": "kube-system", "labels": labels},
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": IDENTITY_SECONDS,
                "renewTime": format_micro_time(now),
            },
        }


def renewed(stored: Object, wanted: Object) -> Object:
    """The stored Lease, kept alive; a server that came back takes over its own."""
    labels = {**(stored["metadata"].get("labels") or {}), **wanted["metadata"]["labels"]}
    return {**stored, "metadata": {**stored["metadata"], "labels": labels}, "spec": {**stored["spec"], **wanted["spec"]}}


def is_expired_identity(lease: Object, now: datetime) -> bool:
    """Whether it is the Lease of a server that has been gone for long."""
    if (lease["metadata"].get("labels") or {}).get(IDENTITY_LABEL) != "kube-apiserver":
        return False
    spec = lease.get("spec") or {}
    if not spec.get("renewTime") or not spec.get("leaseDurationSeconds"):
        return True
    return parse_time(spec["renewTime"]) + timedelta(seconds=int(spec["leaseDurationSeconds"])) < now
