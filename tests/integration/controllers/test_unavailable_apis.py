"""Namespaces and owners while the server of some API does not answer: the rest goes on, and nothing is taken for gone."""

from apimachinery.errors import StatusError
from apimachinery.meta import uid_of
from apimachinery.resources import CONFIG_MAPS, NAMESPACES
from client.rest import Client
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import control_plane, eventually

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = "v1.things.example"
CONTROLLERS = "namespace-controller,garbage-collector-controller,serviceaccount-controller"


async def register(server: TestServer) -> None:
    """An API whose Service nobody has made."""
    spec = {"group": "things.example", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10}
    spec |= {"service": {"namespace": "default", "name": "things"}, "insecureSkipTLSVerify": True}
    assert (await server.request("POST", SERVICES, {"metadata": {"name": NAME}, "spec": spec})).status == 201


async def config_map(client: Client, name: str, namespace: str, **metadata: object) -> dict[str, object]:
    meta = {"name": name, "namespace": namespace, **metadata}
    return await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def absent(client: Client, name: str, namespace: str) -> bool:
    try:
        await client.get(CONFIG_MAPS, name, namespace)
    except StatusError as error:
        return error.code == 404
    return False


async def test_a_namespace_waits_for_what_cannot_be_asked_and_says_so() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await register(server)
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await config_map(client, "one", "team")
        await client.delete(NAMESPACES, "team")

        async def told() -> bool:
            found = (await client.get(NAMESPACES, "team")).get("status", {}).get("conditions", ())
            failure: dict[str, str] = next((each for each in found if each["type"] == "NamespaceDeletionDiscoveryFailure"), {})
            text = "Discovery failed for some groups, 1 failing: things.example/v1: "
            return failure.get("status") == "True" and failure["message"].startswith(text)

        await eventually(told)
        await eventually(lambda: absent(client, "one", "team"))  # what can be asked goes all the same
        assert (await server.request("DELETE", f"{SERVICES}/{NAME}")).status == 200

        async def gone() -> bool:
            return (await server.request("GET", "/api/v1/namespaces/team")).status == 404

        await eventually(gone)


async def test_owners_of_kinds_that_cannot_be_asked_count_as_there() -> None:
    async with running_apiserver() as server:
        await register(server)
        async with control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
            owner = await config_map(client, "owner", "default")
            own = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
            thing = {"apiVersion": "things.example/v1", "kind": "Widget", "name": "w", "uid": "7"}
            await config_map(client, "kept", "default", ownerReferences=[own, thing])
            await config_map(client, "taken", "default", ownerReferences=[own])
            await client.delete(CONFIG_MAPS, "owner", "default")
            await eventually(lambda: absent(client, "taken", "default"))

            async def let_go() -> bool:  # of the one owner that is gone
                kept = await client.get(CONFIG_MAPS, "kept", "default")
                return [each["uid"] for each in kept["metadata"]["ownerReferences"]] == ["7"]

            await eventually(let_go)
