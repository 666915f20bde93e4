"""Controllers and the scheduler, for real, against a real API server in the same process. No node agent: tests play it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click

from apimachinery.meta import Object, clone, name_of, namespace_of
from apimachinery.resources import NODES, PODS, SERVICE_ACCOUNTS
from client.kubeconfig import load
from client.rest import Client
from component.featuregates import Gates
from component.features import DEFAULTS
from component.healthz import Health
from component.metrics import Registry
from controlplane.controllers import __main__ as controller_manager
from controlplane.controllers import catalog
from controlplane.hosting import Host
from controlplane.scheduler import __main__ as scheduler
from controlplane.scheduler.config import SchedulerConfig
from tests.support.apiserver import ADMIN_TOKEN, TestServer


@asynccontextmanager
async def control_plane(
    server: TestServer, flags: Sequence[str] = (), *, schedule: bool = True, controllers: str = "*", gates: Gates = DEFAULTS
) -> AsyncIterator[Client]:
    """Runs both daemons' own wiring, each with its own identity; yields an administrator's client. ``gates`` are the
    scheduler's."""
    arguments = [f"--kubeconfig={server.kubeconfig}", f"--controllers={controllers}", *flags]
    command = click.Command("controller-manager", params=list(controller_manager.DAEMON.params))
    options = command.make_context("controller-manager", arguments).params
    async with (
        _client(server, ADMIN_TOKEN) as client,
        _client(server, "controller-manager-token") as for_controllers,
        _client(server, "scheduler-token") as for_scheduler,
    ):
        host = Host(for_controllers, Health(), Registry(process=False), "test")
        runs = [controller_manager.run_controllers(options, catalog.chosen(options["controllers"]), host)]
        if schedule:
            host = Host(for_scheduler, Health(), Registry(process=False), "test")
            runs.append(scheduler.run_scheduler(SchedulerConfig(), host, gates))
        tasks = [asyncio.ensure_future(run) for run in runs]
        try:
            await eventually(lambda: _has_account(client))
            yield client
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result


def _client(server: TestServer, token: str) -> Client:
    return Client(load(server.kubeconfig_for(token)), component="test")


async def _has_account(client: Client) -> bool:
    """Pods of the default namespace are refused before it has its account."""
    return bool((await client.list(SERVICE_ACCOUNTS, "default"))["items"])


async def eventually(look: Callable[[], Awaitable[Any]], *, within: float = 10.0) -> Any:
    """Ask until the answer is true; returns it. Fails with the last answer."""
    until = time.monotonic() + within
    while True:
        try:
            if answer := await look():
                return answer
            failure = AssertionError(f"not within {within:g} s; last answer: {answer!r}")
        except AssertionError as error:
            failure = error
        if time.monotonic() > until:
            raise failure
        await asyncio.sleep(0.02)


async def add_node(client: Client, name: str = "node-1", *, cpu: str = "8", pods: str = "110", **metadata: Any) -> Object:
    """A Ready node without an agent."""
    labels = {"kubernetes.io/hostname": name, **metadata.pop("labels", {})}
    metadata = {"name": name, "labels": labels, **metadata}
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    offered = {"cpu": cpu, "memory": "16Gi", "pods": pods}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"capacity": offered, "allocatable": offered, "conditions": [condition]}
    await client.patch(NODES, name, {"status": status}, subresource="status")
    # What the node lifecycle controller does for a ready node, which not every test runs.
    return await client.patch(NODES, name, {"spec": {"taints": None}})


class Kubelet:
    """Plays the node agent: bound pods become Running and Ready, deleted ones go."""

    def __init__(self, client: Client, *, ready: bool = True) -> None:
        self._client = client
        self.ready = ready
        self._next = 1

    async def run(self) -> None:
        listed = await self._client.list(PODS)
        for pod in listed["items"]:
            await self._serve(pod)
        while True:
            async with self._client.watch(PODS, resource_version=listed["metadata"]["resourceVersion"]) as events:
                async for kind, pod in events:
                    listed["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"]
                    if kind in ("ADDED", "MODIFIED"):
                        await self._serve(pod)

    async def _serve(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName"):
            return
        if pod["metadata"].get("deletionTimestamp"):
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), grace=0)
        elif self.ready and (pod.get("status") or {}).get("phase") == "Pending":
            changed = clone(pod)
            self._next += 1
            stamp = "2026-01-01T00:00:00Z"
            conditions = [each for each in changed["status"].get("conditions") or () if each["type"] != "Ready"]
            conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": stamp})
            address = f"10.244.{self._next // 250}.{self._next % 250 + 1}"
            changed["status"].update(
                phase="Running", podIP=address, podIPs=[{"ip": address}], conditions=conditions, startTime=stamp
            )
            await self._client.update_status(PODS, changed)
