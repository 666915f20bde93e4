"""The EndpointSlice by which the Service ``kube-dns`` leads to this node's server. Pure wish, thin upkeep; run by ``__main__``.

The Service has no selector: nothing but these slices, one per node, says where it goes. A slice belongs to its Node object and
goes with it; while the server ends it says that it is not ready. Each endpoint is hinted to its own node, so a pod asks the
server beside it, and another node's only where its own has none.
"""

import asyncio
import contextlib
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import ENDPOINT_SLICES, NODES
from client.rest import Client
from component import logs
from component.clock import timeout
from component.tasks import Backoff
from netproxy.dns.facts import DNS_SERVICE, SERVICE_LABEL

_log = logs.get(__name__)
Object = dict[str, Any]
NAMESPACE, SERVICE = DNS_SERVICE
MANAGER = "dns.pybernetes"
"""Of the slices: the endpoint slice controllers leave those of others alone."""
FAREWELL_SECONDS = 2.0
RESYNC_SECONDS = 300.0


def wanted_slice(node: str, node_uid: str, address: str, port: int, *, ready: bool) -> Object:
    """The slice of one node's server."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(node),
            "namespace": NAMESPACE,
            "labels": {
                "k8s-app": "kube-dns",
                SERVICE_LABEL: SERVICE,
                "endpointslice.kubernetes.io/managed-by": MANAGER,
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}],
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": ready, "serving": ready, "terminating": not ready},
                "nodeName": node,
                "hints": {"forNodes": [{"name": node}]},
            }
        ],
        "ports": [
            {"name": "dns", "port": port, "protocol": "UDP"},
            {"name": "dns-tcp", "port": port, "protocol": "TCP"},
        ],
    }


def slice_name(node: str) -> str:
    return f"{SERVICE}-{node}"


def says(found: Object, wanted: Object) -> bool:
    """Whether a stored slice says what it should."""
    keys = ("addressType", "endpoints", "ports")
    have, want = found["metadata"], wanted["metadata"]
    labels = have.get("labels") or {}
    return (
        all(found.get(key) == wanted[key] for key in keys)
        and all(labels.get(key) == value for key, value in want["labels"].items())
        and have.get("ownerReferences") == want["ownerReferences"]
    )


class Publisher:
    """Keeps one node's slice what it should be: looks when somebody changed it, and now and then."""

    def __init__(self, client: Client, node: str, address: str, port: int) -> None:
        self._client, self._node, self._address, self._port = client, node, address, port
        self._wake = asyncio.Event()

    def noticed(self, namespace: str, name: str) -> None:
        """A slice changed; ours wakes us."""
        if namespace == NAMESPACE and name == slice_name(self._node):
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled; then say that the server ends."""
        clock = self._client.clock
        pauses = Backoff(0.5, 30.0, clock=clock)
        try:
            while True:
                self._wake.clear()
                try:
                    await self.sync()
                except (StatusError, ConnectionError) as error:
                    _log.v(1, "Could not publish this server, trying again", err=error)
                    await clock.sleep(pauses.step())
                    continue
                pauses.reset()
                with contextlib.suppress(TimeoutError):
                    async with timeout(clock, RESYNC_SECONDS):
                        await self._wake.wait()
        finally:
            await self.farewell()

    async def sync(self) -> None:
        """Write the slice where it is missing or says something else. Raises StatusError, as while the node has no object."""
        node = await self._client.get(NODES, self._node)
        await self._write(wanted_slice(self._node, node["metadata"]["uid"], self._address, self._port, ready=True))

    async def _write(self, wanted: Object) -> None:
        try:
            found = await self._client.get(ENDPOINT_SLICES, wanted["metadata"]["name"], NAMESPACE)
        except StatusError as error:
            if error.code != 404:
                raise
            await self._client.create(ENDPOINT_SLICES, wanted)
            return
        if found["addressType"] != wanted["addressType"]:
            # that field cannot be changed
            await self._client.delete(ENDPOINT_SLICES, wanted["metadata"]["name"], NAMESPACE)
            await self._client.create(ENDPOINT_SLICES, wanted)
        elif not says(found, wanted):
            version = found["metadata"]["resourceVersion"]
            metadata = {**wanted["metadata"], "resourceVersion": version}
            await self._client.update(ENDPOINT_SLICES, {**wanted, "metadata": metadata})

    async def farewell(self) -> None:
        """Say that the server ends. An API server that is away is not waited for."""
        body = {"endpoints": wanted_slice(self._node, "", self._address, self._port, ready=False)["endpoints"]}
        try:
            async with timeout(self._client.clock, FAREWELL_SECONDS):
                await self._client.patch(ENDPOINT_SLICES, slice_name(self._node), body, namespace=NAMESPACE)
        except (StatusError, ConnectionError, TimeoutError) as error:
            _log.v(2, "Could not say that this server ends", err=error)
