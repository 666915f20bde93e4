"""From pods that become ready to the endpoints that clients and proxies read."""

import asyncio

from apimachinery.meta import Object, labels_of
from apimachinery.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


async def slices(client: Client) -> list[Object]:
    return list((await client.list(ENDPOINT_SLICES, "default", label_selector="kubernetes.io/service-name=web"))["items"])


async def test_endpoints_follow_the_pods() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        port = {"name": "http", "port": 80, "targetPort": "http"}
        service = {"selector": {"app": "web"}, "ports": [port]}
        metadata = {"name": "web", "namespace": "default"}
        await client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})

        async def placeholder() -> bool:
            found = await slices(client)
            return len(found) == 1 and not found[0].get("endpoints")

        await eventually(placeholder)
        container = {"name": "c", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}]}
        for number in range(3):
            meta = {"name": f"web-{number}", "namespace": "default", "labels": {"app": "web"}}
            await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})

        async def ready(count: int) -> bool:
            found = (await slices(client))[0]
            endpoints = found.get("endpoints") or []
            assert len(endpoints) == count
            assert all(each["conditions"]["ready"] and each["nodeName"] == "node-1" for each in endpoints)
            assert [each["port"] for each in found["ports"]] == [8080]
            assert labels_of(found)["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
            return True

        await eventually(lambda: ready(3))

        async def legacy(count: int) -> bool:
            subsets = (await client.get(ENDPOINTS, "web", "default")).get("subsets") or []
            return sum(len(each["addresses"]) for each in subsets) == count

        await eventually(lambda: legacy(3))
        await client.delete(PODS, "web-1", "default")
        await eventually(lambda: ready(2))
        await eventually(lambda: legacy(2))
        await client.delete(SERVICES, "web", "default")

        async def gone() -> bool:
            left = [each for each in (await client.list(ENDPOINTS, "default"))["items"] if each["metadata"]["name"] == "web"]
            return not await slices(client) and not left

        await eventually(gone)
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)


async def test_endpoints_written_by_hand_are_mirrored() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:
        metadata = {"name": "web", "namespace": "default"}
        spec = {"ports": [{"port": 80}]}
        await client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        subsets = [{"addresses": [{"ip": "10.9.8.7"}], "ports": [{"port": 8080}]}]
        await client.create(ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})

        async def mirrored(*addresses: str) -> bool:
            found = [endpoint["addresses"][0] for each in await slices(client) for endpoint in each["endpoints"]]
            return sorted(found) == sorted(addresses)

        await eventually(lambda: mirrored("10.9.8.7"))
        subsets[0]["addresses"] = [{"ip": "10.9.8.6"}, {"ip": "10.9.8.5"}]
        await client.patch(ENDPOINTS, "web", {"subsets": subsets}, namespace="default")
        await eventually(lambda: mirrored("10.9.8.6", "10.9.8.5"))
        await client.delete(ENDPOINTS, "web", "default")
        await eventually(mirrored)
