"""A StatefulSet starts, updates and stops its pods in order, under names that stay."""

import asyncio
from typing import Any

from apimachinery.meta import Object, name_of
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STATEFUL_SETS
from client.rest import STRATEGIC, Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually
from tests.support.storage import make_volume


def stateful(replicas: int = 3, **spec: Any) -> Object:
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "db:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


async def images(client: Client) -> dict[str, str]:
    pods = (await client.list(PODS, "default", label_selector="app=db"))["items"]
    return {name_of(pod): pod["spec"]["containers"][0]["image"] for pod in pods}


async def settled(client: Client, wanted: dict[str, str]) -> bool:
    status = (await client.get(STATEFUL_SETS, "db", "default"))["status"]
    assert await images(client) == wanted
    assert status.get("readyReplicas", 0) == len(wanted)
    return bool(status["currentRevision"] == status["updateRevision"])


async def test_in_order() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = Kubelet(client, ready=False)
        running = asyncio.ensure_future(kubelet.run())
        await client.create(STATEFUL_SETS, stateful())

        async def first() -> bool:
            return list(await images(client)) == ["db-0"]

        await eventually(first)
        await asyncio.sleep(0.2)
        assert await first()  # the second waits until the first is ready
        running.cancel()
        kubelet.ready = True
        running = asyncio.ensure_future(kubelet.run())
        await eventually(lambda: settled(client, {f"db-{number}": "db:1" for number in range(3)}))
        pod = await client.get(PODS, "db-1", "default")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
        change: Object = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}}}
        await client.patch(STATEFUL_SETS, "db", change, STRATEGIC, "default")
        await eventually(lambda: settled(client, {f"db-{number}": "db:2" for number in range(3)}))
        code, _, err = await server.kubectl("rollout", "status", "statefulset/db", "--timeout=10s")
        assert code == 0, err
        await client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, namespace="default")
        await eventually(lambda: settled(client, {"db-0": "db:2"}))
        await client.delete(PODS, "db-0", "default")
        await eventually(lambda: settled(client, {"db-0": "db:2"}))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_partition_holds_back_the_lower_ordinals() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        running = asyncio.ensure_future(Kubelet(client).run())
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await client.create(STATEFUL_SETS, stateful(podManagementPolicy="Parallel", updateStrategy=strategy))
        await eventually(lambda: settled(client, {f"db-{number}": "db:1" for number in range(3)}))
        change: Object = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}}}
        await client.patch(STATEFUL_SETS, "db", change, STRATEGIC, "default")

        async def partial() -> bool:
            return await images(client) == {"db-0": "db:1", "db-1": "db:1", "db-2": "db:2"}

        await eventually(partial)
        await client.delete(PODS, "db-0", "default")

        async def back() -> bool:
            status = (await client.get(STATEFUL_SETS, "db", "default"))["status"]
            return await partial() and status.get("readyReplicas") == 3

        await eventually(back)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_claims_go_with_pods_that_are_scaled_away_if_that_is_wanted() -> None:
    async with running_apiserver() as server, control_plane(server, controllers="*,-local-path") as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        for number in range(2):
            await client.create(PERSISTENT_VOLUMES, make_volume(f"v{number}"))
        made = stateful(2)
        made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
        made["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Delete", "whenDeleted": "Retain"}
        await client.create(STATEFUL_SETS, made)

        async def claims() -> list[str]:
            return sorted(each["metadata"]["name"] for each in (await client.list(PERSISTENT_VOLUME_CLAIMS, "default"))["items"])

        async def ready() -> bool:
            return ((await client.get(STATEFUL_SETS, "db", "default")).get("status") or {}).get("readyReplicas") == 2

        await eventually(ready)
        assert await claims() == ["data-db-0", "data-db-1"]
        await client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, namespace="default")

        async def fewer() -> bool:
            return await claims() == ["data-db-0"]

        await eventually(fewer)
        await client.delete(STATEFUL_SETS, "db", "default")

        async def no_pods() -> bool:
            return not (await client.list(PODS, "default"))["items"]

        await eventually(no_pods)
        assert await claims() == ["data-db-0"]
        kubelet.cancel()
