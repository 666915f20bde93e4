"""Evictions are refused while a budget needs the pod, and go through again when it does not."""

import asyncio

from apimachinery.errors import StatusError
from apimachinery.meta import name_of
from apimachinery.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from tests.integration.controllers.test_deployment import available, deployment, pods_of
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


async def test_budget() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        await client.create(DEPLOYMENTS, deployment(replicas=2))
        await eventually(lambda: available(client, replicas=2))
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
        metadata = {"name": "b", "namespace": "default"}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        await client.create(POD_DISRUPTION_BUDGETS, kind)

        async def allowed(count: int) -> bool:
            status = (await client.get(POD_DISRUPTION_BUDGETS, "b", "default"))["status"]
            return bool(status.get("expectedPods") and status["disruptionsAllowed"] == count)

        await eventually(lambda: allowed(0))
        victim = name_of((await pods_of(client))[0])
        metadata = {"name": victim, "namespace": "default"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = PODS.path("default", victim, "eviction")
        refused = await server.request("POST", path, eviction)
        assert refused.status == 429
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, namespace="default")
        await eventually(lambda: allowed(1))
        accepted = await server.request("POST", path, eviction)
        assert accepted.status == 201

        async def gone() -> bool:
            try:
                await client.get(PODS, victim, "default")
            except StatusError as error:
                return error.code == 404
            return False

        await eventually(gone)
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
