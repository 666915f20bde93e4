"""Pods that do not fit say why, and are scheduled when something changes."""

from typing import Any

import pytest

from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object, get_condition
from apimachinery.resources import EVENTS, NODES, PODS
from client.rest import Client
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.status import Status
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.plugins.default_binder import DefaultBinder
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually


def pod(name: str, cpu: str = "100m", **spec: Any) -> Object:
    container = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


async def node_of(client: Client, name: str) -> str:
    return str((await client.get(PODS, name, "default"))["spec"].get("nodeName") or "")


async def refusal(client: Client, name: str) -> str:
    condition = get_condition(await client.get(PODS, name, "default"), "PodScheduled") or {}
    return str(condition.get("message") or "") if condition.get("status") == "False" else ""


async def test_a_pod_waits_for_room_and_takes_it() -> None:
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        await client.create(PODS, pod("first", "3"))
        assert await eventually(lambda: refusal(client, "first")) == "no nodes available to schedule pods"
        await add_node(client, "small", cpu="4")
        assert await eventually(lambda: node_of(client, "first")) == "small"
        await client.create(PODS, pod("second", "3"))
        message = await eventually(lambda: refusal(client, "second"))
        assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")

        async def told() -> bool:
            events = [each for each in (await client.list(EVENTS, "default"))["items"] if each["reason"] == "FailedScheduling"]
            return any(each["note"] == message and each["regarding"]["name"] == "second" for each in events)

        await eventually(told)
        await client.delete(PODS, "first", "default", grace=0)
        assert await eventually(lambda: node_of(client, "second")) == "small"


async def test_taints_selectors_and_gates() -> None:
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        await add_node(client, "a", labels={"disk": "ssd"})
        await add_node(client, "b")
        await client.patch(NODES, "a", {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}})
        await client.create(PODS, pod("picky", nodeSelector={"disk": "ssd"}))
        message = await eventually(lambda: refusal(client, "picky"))
        expected = (
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."
        )
        assert message.startswith(expected)
        await client.create(PODS, pod("tolerant", nodeSelector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}]))
        assert await eventually(lambda: node_of(client, "tolerant")) == "a"
        await client.create(PODS, pod("gated", schedulingGates=[{"name": "a.b/hold"}]))
        await client.patch(NODES, "a", {"spec": {"taints": None}})
        assert await eventually(lambda: node_of(client, "picky")) == "a"
        assert await node_of(client, "gated") == ""
        await client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace="default")
        assert await eventually(lambda: node_of(client, "gated"))


async def test_pods_spread_over_equal_nodes() -> None:
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        for name in ("a", "b", "c"):
            await add_node(client, name)
        for number in range(9):
            await client.create(PODS, pod(f"p{number}"))

        async def spread() -> bool:
            nodes = [each["spec"].get("nodeName") for each in (await client.list(PODS, "default"))["items"]]
            assert sorted(map(str, nodes)) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
            return True

        await eventually(spread)


async def test_important_pods_take_the_place_of_others() -> None:
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        priorities = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        await client.create(priorities, kind)
        await add_node(client, cpu="1")
        await client.create(PODS, pod("low", "1", terminationGracePeriodSeconds=0))
        assert await eventually(lambda: node_of(client, "low"))
        await client.create(PODS, pod("high", "1", priorityClassName="high"))
        assert await eventually(lambda: node_of(client, "high")) == "node-1"
        events = [each for each in (await client.list(EVENTS, "default"))["items"] if each["reason"] == "Preempted"]
        assert [each["regarding"]["name"] for each in events] == ["low"]


async def test_room_that_victims_leave_is_kept_for_the_pod_they_leave_it_to() -> None:
    """Victims go one by one; their replacements, as a ReplicaSet makes them at once, must not take the room."""
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        priorities = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        await client.create(priorities, kind)
        await add_node(client, cpu="1")
        for name in ("low-1", "low-2"):
            await client.create(PODS, pod(name, "500m"))
            assert await eventually(lambda name=name: node_of(client, name))
        await client.create(PODS, pod("high", "1", priorityClassName="high"))

        async def leaving(name: str) -> bool:
            return "deletionTimestamp" in (await client.get(PODS, name, "default"))["metadata"]

        for name in ("low-1", "low-2"):
            assert await eventually(lambda name=name: leaving(name))
        await client.delete(PODS, "low-1", "default", grace=0)
        assert await eventually(lambda: refusal(client, "high"))
        await client.create(PODS, pod("replacement", "500m"))
        assert await eventually(lambda: refusal(client, "replacement"))
        await client.delete(PODS, "low-2", "default", grace=0)
        assert await eventually(lambda: node_of(client, "high")) == "node-1"
        assert not await node_of(client, "replacement")


async def test_one_pod_that_breaks_a_plugin_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bind, broken = DefaultBinder.bind, True

    async def sometimes(self: DefaultBinder, state: CycleState, info: PodInfo, node: str) -> Status | None:
        if broken and info.name == "cursed":
            raise RuntimeError("a bug")
        return await bind(self, state, info, node)

    monkeypatch.setattr(DefaultBinder, "bind", sometimes)
    async with running_apiserver() as server, control_plane(server, controllers="serviceaccount") as client:
        await add_node(client, "a", cpu="1")
        await client.create(PODS, pod("cursed", "600m"))
        await client.create(PODS, pod("plain", "600m"))  # has room, as the other holds none for long
        assert await eventually(lambda: node_of(client, "plain")) == "a"
        await client.delete(PODS, "plain", "default", grace=0)
        broken = False
        assert await eventually(lambda: node_of(client, "cursed")) == "a"
