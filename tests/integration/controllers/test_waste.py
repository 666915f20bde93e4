"""A Deployment costs few wasted writes: controllers know what they wrote before they write again."""

import asyncio
from collections import Counter

from apimachinery.resources import DEPLOYMENTS, SERVICES
from client.rest import STRATEGIC
from tests.integration.controllers.test_deployment import available, deployment
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


async def writes(server: TestServer) -> Counter[tuple[str, str]]:
    """(resource/subresource verb, code) of every write so far."""
    found: Counter[tuple[str, str]] = Counter()
    for line in (await server.request("GET", "/metrics")).body.decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(part.split("=", 1) for part in line[line.index("{") + 1 : line.rindex("}")].split(","))
            values = {key: value.strip('"') for key, value in labels.items()}
            if values["verb"] in ("POST", "PUT", "PATCH", "DELETE"):
                name = f"{values['verb']} {values['resource']}/{values['subresource']}".rstrip("/")
                found[name, values["code"]] += int(float(line.rsplit(" ", 1)[1]))
    return found


async def test_a_rollout_loses_few_races() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        await client.create(
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            },
        )
        before = await writes(server)
        await client.create(DEPLOYMENTS, deployment())
        await eventually(lambda: available(client, replicas=3))
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, STRATEGIC, namespace="default")
        await eventually(lambda: available(client, replicas=5))
        template = {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}
        await client.patch(DEPLOYMENTS, "web", {"spec": {"template": template}}, STRATEGIC, namespace="default")
        await eventually(lambda: available(client, replicas=5, image="web:2"))
        await asyncio.sleep(0.5)
        spent = await writes(server) - before
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
    lost = {key: count for key, count in spent.items() if key[1] == "409"}
    assert sum(lost.values()) <= 2, spent
    assert spent["PATCH replicasets", "200"] <= 12, spent
