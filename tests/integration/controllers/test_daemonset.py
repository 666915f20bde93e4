"""A DaemonSet runs on every eligible node, follows nodes as they come and go, and updates in place."""

import asyncio
from typing import Any

from apimachinery.meta import Object
from apimachinery.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from client.rest import STRATEGIC, Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


def daemon(image: str = "agent:1", **spec: Any) -> Object:
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def placed(client: Client, image: str = "agent:1") -> list[str]:
    pods = (await client.list(PODS, "default", label_selector="app=agent"))["items"]
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    assert all(pod["spec"]["containers"][0]["image"] == image for pod in living)
    return sorted(pod["spec"].get("nodeName") or "" for pod in living)


async def done(client: Client, count: int) -> bool:
    held = await client.get(DAEMON_SETS, "agent", "default")
    status = held["status"]
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    assert {field: status.get(field, 0) for field in fields} == dict.fromkeys(fields, count)
    return bool(status["observedGeneration"] == held["metadata"]["generation"])


async def test_one_pod_on_every_node() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        for name in ("a", "b"):
            await add_node(client, name)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        await client.create(DAEMON_SETS, daemon())
        await eventually(lambda: done(client, 2))
        assert await placed(client) == ["a", "b"]
        await add_node(client, "c")
        await eventually(lambda: done(client, 3))
        await client.patch(NODES, "b", {"spec": {"unschedulable": True}})  # cordoned: daemons stay
        await client.patch(NODES, "a", {"spec": {"taints": [{"key": "out", "value": "x", "effect": "NoExecute"}]}}, STRATEGIC)
        await eventually(lambda: done(client, 2))
        assert await placed(client) == ["b", "c"]
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "agent:2"}]}}}}
        await client.patch(DAEMON_SETS, "agent", change, STRATEGIC, "default")
        await eventually(lambda: done(client, 2))

        async def updated() -> bool:
            return await placed(client, "agent:2") == ["b", "c"]

        await eventually(updated)
        revisions = (await client.list(CONTROLLER_REVISIONS, "default"))["items"]
        assert sorted(each["revision"] for each in revisions) == [1, 2]
        code, out, err = await server.kubectl("rollout", "status", "daemonset/agent", "--timeout=10s")
        assert code == 0, err
        assert "successfully rolled out" in out
        code, out, err = await server.kubectl("rollout", "undo", "daemonset/agent")
        assert code == 0, err

        async def undone() -> bool:
            return await placed(client, "agent:1") == ["b", "c"]

        await eventually(undone)
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
