"""The node's heartbeat: a Lease in ``kube-node-lease``, renewed every quarter of its duration."""

from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import LEASES, NODES
from apimachinery.times import format_micro_time
from client.rest import Client
from component import logs
from component.clock import Clock

NAMESPACE = "kube-node-lease"
_FIRST_RETRY = 0.2
_MAX_RETRY = 7.0
_log = logs.get(__name__)


class NodeLease:
    """Creates, adopts and renews the lease of one node."""

    def __init__(self, client: Client, clock: Clock, node_name: str, duration: int = 40) -> None:
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._duration = duration
        self._held: dict[str, Any] | None = None

    async def run(self) -> None:
        """Renew until cancelled; failures are tried again at once, then more slowly."""
        pause = _FIRST_RETRY
        while True:
            try:
                await self.renew()
            except (TimeoutError, StatusError, OSError) as error:
                _log.warning("Cannot renew the node's lease", node=self._node_name, err=error)
                self._held = None
                await self._clock.sleep(pause)
                pause = min(pause * 2, _MAX_RETRY)
            else:
                pause = _FIRST_RETRY
                await self._clock.sleep(self._duration / 4)

    async def renew(self) -> None:
        """One heartbeat. Raises StatusError or OSError."""
        lease = self._held or await self._find()
        spec = {
            "holderIdentity": self._node_name,
            "leaseDurationSeconds": self._duration,
            "renewTime": format_micro_time(self._clock.now()),
        }
        if lease is None:
            metadata: dict[str, Any] = {"name": self._node_name, "namespace": NAMESPACE}
            if owner := await self._owner():
                metadata["ownerReferences"] = [owner]
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self._held = await self._client.create(LEASES, made)
        else:
            self._held = await self._client.update(LEASES, {**lease, "spec": {**lease.get("spec", {}), **spec}})

    async def _find(self) -> dict[str, Any] | None:
        try:
            return await self._client.get(LEASES, self._node_name, NAMESPACE)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _owner(self) -> dict[str, Any] | None:
        """The lease goes when the node goes; before the node is registered it is made without an owner."""
        try:
            node = await self._client.get(NODES, self._node_name)
        except StatusError:
            return None
        return {"apiVersion": "v1", "kind": "Node", "name": self._node_name, "uid": node["metadata"]["uid"]}
