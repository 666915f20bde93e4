"""The CSI drivers of this node, and the CSINode object that tells the cluster of them.

``pluginregistration.watcher`` registers drivers here; ``plugin`` takes them by name. What the driver says of the node goes
into the CSINode, the node's labels (topology) and an annotation, as upstream's ``nodeinfomanager`` writes them.
"""

import json
from collections.abc import Mapping
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import annotations_of, clone, labels_of, uid_of
from apimachinery.resources import CSI_NODES, NODES
from client.rest import Client
from node.kubelet.interface import VolumeError
from node.kubelet.pluginregistration.watcher import RegistrationError
from node.kubelet.volumes.csi.api import csi_v1_pb2 as pb
from node.kubelet.volumes.csi.driver import Driver

NODE_ID_ANNOTATION = "csi.volume.kubernetes.io/nodeid"
_TRIES = 5
Object = Mapping[str, Any]


class CsiRegistry:
    """Fulfils ``pluginregistration.watcher.Handler`` for ``CSIPlugin``."""

    def __init__(self, client: Client, node_name: str) -> None:
        self._client, self._node_name = client, node_name
        self._drivers: dict[str, Driver] = {}
        self._entries: dict[str, dict[str, Any]] = {}

    def driver(self, name: str) -> Driver:
        """Raises VolumeError for one that has not registered."""
        found = self._drivers.get(name)
        if found is None:
            raise VolumeError(f"driver name {name} not found in the list of registered CSI drivers")
        return found

    async def close(self) -> None:
        for driver in self._drivers.values():
            await driver.close()

    async def register(self, name: str, endpoint: str, versions: list[str]) -> None:
        if not name or len(name) > 63:
            raise RegistrationError(f"CSI driver name must have 1 to 63 characters: {name!r}")
        if not any(version.removeprefix("v").split(".")[0] == "1" for version in versions):
            raise RegistrationError(f"validation of registration failed: no version of 1.x among {versions}")
        driver = Driver(name, endpoint)
        try:
            info = await driver.info()
            await self._tell(name, info)
        except (VolumeError, StatusError, ConnectionError) as error:
            await driver.close()
            raise RegistrationError(f"registration of CSI driver {name} failed: {error}") from error
        former = self._drivers.pop(name, None)
        self._drivers[name] = driver
        if former is not None:
            await former.close()

    async def deregister(self, name: str, endpoint: str) -> None:
        driver = self._drivers.get(name)
        if driver is not None:
            if driver.endpoint != endpoint:
                return
            del self._drivers[name]
            await driver.close()
        self._entries.pop(name, None)
        try:
            await self._tell(name, None)
        except (StatusError, ConnectionError) as error:
            raise RegistrationError(f"CSI driver {name} could not be taken off the node: {error}") from error

    async def ensure_node(self) -> None:
        """The CSINode exists from the start, for the scheduler and provisioners take it for a sign of this kubelet; and it
        comes back, with all drivers, when it has gone with a Node that was made anew."""
        await self._write_csi_node(lambda drivers: with_all(drivers, self._entries))

    async def _tell(self, name: str, info: pb.NodeGetInfoResponse | None) -> None:
        topology = dict(info.accessible_topology.segments) if info is not None else {}
        if info is not None:
            await self._write_node(name, info.node_id, topology)
        entry = None if info is None else described(name, info)
        if entry is not None:
            self._entries[name] = entry
        await self._write_csi_node(lambda drivers: with_driver(drivers, name, entry))
        if info is None:
            await self._write_node(name, None, {})

    async def _write_node(self, name: str, node_id: str | None, topology: Mapping[str, str]) -> None:
        node = await self._client.get(NODES, self._node_name)
        for key, value in topology.items():
            held = labels_of(node).get(key)
            if held is not None and held != value:
                raise VolumeError(
                    f"detected topology value collision: driver reported {key!r}:{value!r} but existing label is {held!r}"
                )
        ids = json.loads(annotations_of(node).get(NODE_ID_ANNOTATION) or "{}")
        ids = {key: value for key, value in {**ids, name: node_id}.items() if value is not None}
        text = json.dumps(ids, separators=(",", ":")) if ids else None
        body = {"metadata": {"annotations": {NODE_ID_ANNOTATION: text}, "labels": dict(topology)}}
        await self._client.patch(NODES, self._node_name, body)

    async def _write_csi_node(self, change: Any) -> None:
        for attempt in range(_TRIES):
            try:
                await self._write_csi_node_once(change)
                return
            except StatusError as error:
                if error.reason not in ("Conflict", "AlreadyExists") or attempt == _TRIES - 1:
                    raise

    async def _write_csi_node_once(self, change: Any) -> None:
        try:
            held = await self._client.get(CSI_NODES, self._node_name)
        except StatusError as error:
            if error.code != 404:
                raise
            node = await self._client.get(NODES, self._node_name)
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node_name, "uid": uid_of(node)}
            metadata = {"name": self._node_name, "ownerReferences": [owner]}
            made = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": change([])}}
            await self._client.create(CSI_NODES, made)
            return
        changed = clone(held)
        changed["spec"]["drivers"] = change(list(held["spec"].get("drivers") or ()))
        if changed["spec"]["drivers"] != (held["spec"].get("drivers") or []):
            await self._client.update(CSI_NODES, changed)


def described(name: str, info: pb.NodeGetInfoResponse) -> dict[str, Any]:
    """The entry of a driver in a CSINode. Pure."""
    entry: dict[str, Any] = {"name": name, "nodeID": info.node_id, "topologyKeys": sorted(info.accessible_topology.segments)}
    if not entry["topologyKeys"]:
        entry["topologyKeys"] = None
    if info.max_volumes_per_node > 0:
        entry["allocatable"] = {"count": int(info.max_volumes_per_node)}
    return entry


def with_all(drivers: list[dict[str, Any]], entries: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The list with every registered driver in it; what is there stays as it is. Pure."""
    held = {each.get("name") for each in drivers}
    return [*drivers, *(entry for name, entry in entries.items() if name not in held)]


def with_driver(drivers: list[dict[str, Any]], name: str, entry: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The list with the entry in the place of the driver's former one; without it if there is none. Pure."""
    others = [each for each in drivers if each.get("name") != name]
    return others if entry is None else [*others, entry]
