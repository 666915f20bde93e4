"""Nodes: their pod CIDRs, and what happens to pods when a kubelet falls silent."""

import asyncio

from apimachinery.errors import StatusError
from apimachinery.meta import condition_status, get_condition
from apimachinery.resources import NODES, PODS
from client.events import Recorder
from client.informer import InformerFactory
from client.kubeconfig import load
from client.rest import Client
from controlplane.controllers.controller import Environment
from controlplane.controllers.node_ipam import NodeIPAMController
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually

FLAGS = ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--node-monitor-grace-period=1s"]


async def test_nodes_get_ranges_of_their_own() -> None:
    async with running_apiserver() as server, control_plane(server, FLAGS[:2], schedule=False) as client:
        for name in ("a", "b"):
            await add_node(client, name)

        async def given() -> bool:
            specs = [node["spec"] for node in (await client.list(NODES))["items"]]
            found = sorted(spec.get("podCIDR", "") for spec in specs)
            return found == ["10.244.0.0/24", "10.244.1.0/24"] and all(spec["podCIDRs"] == [spec["podCIDR"]] for spec in specs)

        await eventually(given)


async def test_a_node_that_has_a_range_by_the_time_keeps_it() -> None:
    """The cache may show a node without a range for a while after it has got one: from us, or from its kubelet."""
    async with running_apiserver() as server, Client(load(server.kubeconfig)) as client:
        await add_node(client)
        stale = await client.get(NODES, "node-1")
        await client.patch(NODES, "node-1", {"spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}})
        environment = Environment(client, InformerFactory(client), lambda name: Recorder(client, name, "test"), client.clock)
        controller = NodeIPAMController(environment, ["10.244.0.0/16"], (24, 64))
        await environment.watch(NODES).replace([stale])
        assert await controller.reconcile("node-1") is None
        await add_node(client, "node-2")
        other = await client.get(NODES, "node-2")
        await environment.watch(NODES).replace([stale, other])
        for _ in range(2):  # the second time before the cache has heard of the first
            assert await controller.reconcile("node-2") is None
        assert (await client.get(NODES, "node-2"))["spec"]["podCIDR"] == "10.244.1.0/24"


async def test_a_silent_node_loses_its_pods() -> None:
    async with running_apiserver() as server, control_plane(server, FLAGS) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        spec = {"containers": [{"name": "c", "image": "web:1"}], "tolerations": [{**toleration, "tolerationSeconds": 1}]}
        metadata = {"name": "p", "namespace": "default"}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

        async def ready() -> bool:
            return condition_status(await client.get(PODS, "p", "default"), "Ready") == "True"

        await eventually(ready)

        async def silent() -> bool:
            node = await client.get(NODES, "node-1")
            condition = get_condition(node, "Ready") or {}
            effects = {(each["key"], each["effect"]) for each in node["spec"].get("taints") or ()}
            key = "node.kubernetes.io/unreachable"
            return condition.get("reason") == "NodeStatusUnknown" and {(key, "NoSchedule"), (key, "NoExecute")} <= effects

        await eventually(silent)

        async def evicted() -> bool:
            try:
                await client.get(PODS, "p", "default")
            except StatusError as error:
                return error.code == 404
            return False

        await eventually(evicted)
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
