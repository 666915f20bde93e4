"""A Deployment's way to running pods and back, on the real API server, scheduler and controllers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from apimachinery.meta import Object, annotations_of, get_condition, name_of
from apimachinery.resources import DEPLOYMENTS, EVENTS, PODS, REPLICA_SETS
from client.rest import STRATEGIC, Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


def deployment(name: str = "web", replicas: int = 3, image: str = "web:1", **spec: Any) -> Object:
    labels = {"app": name}
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


@asynccontextmanager
async def cluster(*, ready: bool = True) -> AsyncIterator[Client]:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client, ready=ready).run())
        try:
            yield client
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)


async def available(client: Client, name: str = "web", *, replicas: int, image: str = "web:1") -> Object | None:
    """The Deployment, once its status says that the rollout is complete (as ``kubectl rollout status`` reads it)."""
    held = await client.get(DEPLOYMENTS, name, "default")
    status = held.get("status") or {}
    complete = status.get("observedGeneration") == held["metadata"]["generation"] and all(
        status.get(field, 0) == replicas for field in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return held if complete and held["spec"]["template"]["spec"]["containers"][0]["image"] == image else None


async def pods_of(client: Client, name: str = "web") -> list[Object]:
    return list((await client.list(PODS, "default", label_selector=f"app={name}"))["items"])


async def test_from_deployment_to_bound_pods_at_once() -> None:
    async with cluster() as client:
        await asyncio.sleep(0.2)
        await client.create(DEPLOYMENTS, deployment())

        async def bound() -> bool:
            found = await pods_of(client)
            return len(found) == 3 and all(pod["spec"].get("nodeName") == "node-1" for pod in found)

        await eventually(bound, within=1.0)
        held = await eventually(lambda: available(client, replicas=3))
        assert annotations_of(held)["deployment.kubernetes.io/revision"] == "1"
        progressing = get_condition(held, "Progressing")
        assert progressing is not None
        assert progressing["reason"] == "NewReplicaSetAvailable"
        sets = (await client.list(REPLICA_SETS, "default"))["items"]
        assert name_of(sets[0]) == f"web-{sets[0]['metadata']['labels']['pod-template-hash']}"

        async def told() -> bool:
            notes = [each.get("note", "") for each in (await client.list(EVENTS, "default"))["items"]]
            assert f"Scaled up replica set {name_of(sets[0])} from 0 to 3" in notes
            assert any(note.startswith("Created pod: web-") for note in notes)
            return any(note.startswith("Successfully assigned default/web-") for note in notes)

        await eventually(told)
        assigned = [each for each in (await client.list(EVENTS, "default"))["items"] if each["reason"] == "Scheduled"]
        assert "1 of 1 nodes fit; score" in assigned[0]["metadata"]["annotations"]["pybernetes.io/why"]


async def test_rolling_update_and_rollback() -> None:
    async with cluster() as client:
        await client.create(DEPLOYMENTS, deployment())
        await eventually(lambda: available(client, replicas=3))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}}
        await client.patch(DEPLOYMENTS, "web", change, STRATEGIC, "default")
        held = await eventually(lambda: available(client, replicas=3, image="web:2"))
        assert annotations_of(held)["deployment.kubernetes.io/revision"] == "2"
        sizes = {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"]
                 for each in (await client.list(REPLICA_SETS, "default"))["items"]}  # fmt: skip
        assert sizes == {"web:1": 0, "web:2": 3}
        change["spec"]["template"]["spec"]["containers"][0]["image"] = "web:1"
        await client.patch(DEPLOYMENTS, "web", change, STRATEGIC, "default")
        held = await eventually(lambda: available(client, replicas=3, image="web:1"))
        assert annotations_of(held)["deployment.kubernetes.io/revision"] == "3"
        assert len((await client.list(REPLICA_SETS, "default"))["items"]) == 2


async def test_scale_replace_and_recreate() -> None:
    async with cluster() as client:
        await client.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
        await eventually(lambda: available(client, replicas=3))
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, namespace="default")
        await eventually(lambda: available(client, replicas=5))
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, namespace="default")
        await eventually(lambda: available(client, replicas=1))
        victim = (await pods_of(client))[0]
        await client.delete(PODS, name_of(victim), "default")

        async def replaced() -> bool:
            return [name_of(pod) for pod in await pods_of(client)] not in ([], [name_of(victim)])

        await eventually(replaced)
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}}
        await client.patch(DEPLOYMENTS, "web", change, STRATEGIC, "default")
        await eventually(lambda: available(client, replicas=1, image="web:2"))


async def test_deleting_the_deployment_takes_everything_along() -> None:
    async with cluster() as client:
        await client.create(DEPLOYMENTS, deployment())
        await eventually(lambda: available(client, replicas=3))
        await client.delete(DEPLOYMENTS, "web", "default", propagation="Background")

        async def gone() -> bool:
            return not (await client.list(REPLICA_SETS, "default"))["items"] and not await pods_of(client)

        await eventually(gone, within=1.0)


async def test_foreground_deletion_waits_and_orphans_stay() -> None:
    async with cluster() as client:
        await client.create(DEPLOYMENTS, deployment())
        await eventually(lambda: available(client, replicas=3))
        await client.delete(DEPLOYMENTS, "web", "default", propagation="Orphan")

        async def orphaned() -> bool:
            sets = (await client.list(REPLICA_SETS, "default"))["items"]
            deployments = (await client.list(DEPLOYMENTS, "default"))["items"]
            return not deployments and len(sets) == 1 and "ownerReferences" not in sets[0]["metadata"]

        await eventually(orphaned)
        replica_set = (await client.list(REPLICA_SETS, "default"))["items"][0]
        await client.delete(REPLICA_SETS, name_of(replica_set), "default", propagation="Foreground")

        async def gone() -> bool:
            return not (await client.list(REPLICA_SETS, "default"))["items"] and not await pods_of(client)

        await eventually(gone)
