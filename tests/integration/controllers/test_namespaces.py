"""What every namespace gets, and how it goes."""

import asyncio

from apimachinery.errors import StatusError
from apimachinery.meta import Object
from apimachinery.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import Kubelet, add_node, control_plane, eventually


async def present(client: Client, name: str) -> bool:
    try:
        await client.get(NAMESPACES, name)
    except StatusError as error:
        return error.code != 404
    return True


async def absent(client: Client, name: str) -> bool:
    return not await present(client, name)


async def make_namespace(client: Client, name: str = "team") -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def has_account() -> bool:
        return bool((await client.list(SERVICE_ACCOUNTS, name))["items"])

    await eventually(has_account)


def pod(name: str, namespace: str, **metadata: object) -> Object:
    spec = {"containers": [{"name": "c", "image": "web:1"}], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


async def test_every_namespace_knows_the_api_server_and_has_an_account() -> None:
    async with running_apiserver() as server, control_plane(server, [f"--root-ca-file={server.ca_file}"]) as client:
        await make_namespace(client)

        async def published() -> bool:
            found = (await client.list(CONFIG_MAPS, "team"))["items"]
            return [each["data"] for each in found] == [{"ca.crt": server.ca_file.read_text()}]

        await eventually(published)
        await client.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "forged"}}, namespace="team")
        await eventually(published)
        await client.delete(CONFIG_MAPS, "kube-root-ca.crt", "team")
        await client.delete(SERVICE_ACCOUNTS, "default", "team")
        await eventually(published)

        async def has_account() -> bool:
            return bool((await client.list(SERVICE_ACCOUNTS, "team"))["items"])

        await eventually(has_account)


async def test_deleting_a_namespace_empties_it_first() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await add_node(client)
        kubelet = asyncio.ensure_future(Kubelet(client).run())
        await make_namespace(client)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team"}}
        await client.create(SECRETS, secret)
        await client.create(PODS, pod("p", "team"))
        await client.delete(NAMESPACES, "team")
        await eventually(lambda: absent(client, "team"))
        assert not (await client.list(SECRETS, "team"))["items"]
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)


async def test_a_namespace_waits_for_finalizers_and_says_so() -> None:
    async with running_apiserver() as server, control_plane(server) as client:
        await make_namespace(client)
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team", "finalizers": ["a.b/c"]}}
        await client.create(CONFIG_MAPS, held)
        await client.delete(NAMESPACES, "team")

        async def explained() -> bool:
            status = (await client.get(NAMESPACES, "team"))["status"]
            messages = [each["message"] for each in status.get("conditions") or () if each["status"] == "True"]
            assert status["phase"] == "Terminating"
            return "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances" in messages

        await eventually(explained)
        await client.patch(CONFIG_MAPS, "m", {"metadata": {"finalizers": None}}, namespace="team")
        await eventually(lambda: absent(client, "team"))
