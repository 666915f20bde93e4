"""Nodes without containers: they say that they live, and bound pods become Running and Ready, deleted ones go.

Real kubelets on one machine would measure containerd; what is judged here is the control plane. As clients they are real:
informers and requests through the balancer, repeated until they succeed.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import clone
from apimachinery.resources import LEASES, NODES, PODS
from apimachinery.times import format_micro_time, format_time
from client.informer import InformerFactory
from client.rest import Client

_HEARTBEAT = 3.0
Object = dict[str, Any]


class Kubelets:
    def __init__(self, client: Client, names: list[str]) -> None:
        self._client, self._names = client, names
        self._due: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._address = 1

    async def run(self) -> None:
        factory = InformerFactory(self._client)
        pods = factory.informer(PODS)
        pods.add_handler(on_add=self._note, on_update=lambda old, new: self._note(new))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(factory.run())
            for name in self._names:
                tasks.create_task(self._live(name))
            while True:
                await self._wake.wait()
                self._wake.clear()
                due, self._due = self._due, set()
                for key in due:
                    if (pod := pods.store.get("/".join(key))) is not None:
                        tasks.create_task(self._serve(key, pod))

    def _note(self, pod: Object) -> None:
        if pod["spec"].get("nodeName") in self._names:
            self._due.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))
            self._wake.set()

    async def _serve(self, key: tuple[str, str], pod: Object) -> None:
        try:
            if pod["metadata"].get("deletionTimestamp"):
                await self._client.delete(PODS, key[1], key[0], grace=0)
            elif (pod.get("status") or {}).get("phase") == "Pending":
                await self._client.update_status(PODS, self._running(pod))
        except StatusError as error:
            if error.code in (404, 409):
                return
            self._again(key)
        except ConnectionError:
            self._again(key)

    def _again(self, key: tuple[str, str]) -> None:
        def due() -> None:
            self._due.add(key)
            self._wake.set()

        asyncio.get_running_loop().call_later(0.2, due)

    def _running(self, pod: Object) -> Object:
        changed, now = clone(pod), format_time(datetime.now(UTC))
        self._address += 1
        address = f"10.244.{self._address // 250}.{self._address % 250 + 1}"
        conditions = [each for each in changed["status"].get("conditions") or () if each["type"] != "Ready"]
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": now})
        changed["status"].update(phase="Running", podIP=address, podIPs=[{"ip": address}], conditions=conditions, startTime=now)
        return changed

    async def _live(self, name: str) -> None:
        """The node, its status, and its Lease from then on."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        await self._persist(lambda: self._client.create(NODES, node))
        while True:
            await self._persist(lambda: self._client.patch(NODES, name, self._status(), subresource="status"))
            await self._persist(lambda: self._renew(name))
            await asyncio.sleep(_HEARTBEAT)

    def _status(self) -> Object:
        now = format_time(datetime.now(UTC))
        offered = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
        return {"status": {"capacity": offered, "allocatable": offered, "conditions": [ready]}}

    async def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format_micro_time(datetime.now(UTC))}
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, namespace="kube-node-lease")
        except StatusError as error:
            if error.code != 404:
                raise
            metadata = {"name": name, "namespace": "kube-node-lease"}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, lease)

    async def _persist(self, call: Any) -> None:
        while True:
            try:
                await call()
                return
            except StatusError as error:
                if error.code == 409:
                    return
            except ConnectionError:
                pass
            await asyncio.sleep(0.2)
