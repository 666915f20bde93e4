"""Owners across namespaces, owners that never were, and owners that wait for one another."""

import asyncio
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, name_of, uid_of
from apimachinery.resources import CONFIG_MAPS, EVENTS, NAMESPACES, NODES
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually


async def make(client: Client, name: str, *owners: Object, namespace: str = "default", **more: Any) -> Object:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(owner), "uid": uid_of(owner), **more} for owner in owners
    ]
    metadata = {"name": name, "namespace": namespace, "ownerReferences": references}
    return await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def absent(client: Client, name: str) -> bool:
    try:
        await client.get(CONFIG_MAPS, name, "default")
    except StatusError as error:
        return error.code == 404
    return False


async def test_an_owner_counts_by_uid_and_namespace() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        far = await make(client, "far", namespace="team")
        await make(client, "stranger", far)
        await eventually(lambda: absent(client, "stranger"))

        async def told() -> bool:
            events = (await client.list(EVENTS, "default"))["items"]
            return any(each["reason"] == "OwnerRefInvalidNamespace" for each in events)

        await eventually(told)
        near = await make(client, "near")
        impostor: Object = {"metadata": {"name": "near", "uid": "00000000-0000-0000-0000-000000000000"}}
        await make(client, "orphan", impostor)
        await eventually(lambda: absent(client, "orphan"))
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "n",
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "near", "uid": uid_of(near)}],
            },
        }
        await client.create(NODES, node)
        await client.delete(CONFIG_MAPS, "near", "default")
        await asyncio.sleep(0.5)
        assert await client.get(NODES, "n")  # an owner in some namespace cannot own what is in none


async def test_one_of_two_owners_is_enough() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:
        first, second = await make(client, "first"), await make(client, "second")
        await make(client, "child", first, second)
        await client.delete(CONFIG_MAPS, "first", "default")
        await asyncio.sleep(0.3)
        assert await client.get(CONFIG_MAPS, "child", "default")
        await client.delete(CONFIG_MAPS, "second", "default")
        await eventually(lambda: absent(client, "child"))


async def test_foreground_takes_the_last_first_even_in_a_circle() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False) as client:
        parent = await make(client, "parent")
        child = await make(client, "child", parent, blockOwnerDeletion=True)
        grandchild = await make(client, "grandchild", child, blockOwnerDeletion=True)
        back = {"apiVersion": "v1", "kind": "ConfigMap", "name": "grandchild", "uid": uid_of(grandchild)}
        body = {"metadata": {"ownerReferences": [{**back, "blockOwnerDeletion": True}]}}
        await client.patch(CONFIG_MAPS, "parent", body, namespace="default")
        await client.delete(CONFIG_MAPS, "parent", "default", propagation="Foreground")
        for name in ("grandchild", "child", "parent"):
            await eventually(lambda name=name: absent(client, name))  # type: ignore[misc]


async def test_survives_a_restart() -> None:
    async with running_apiserver() as server:
        async with control_plane(server, schedule=False) as client:
            owner = await make(client, "owner")
            await make(client, "child", owner)
        async with control_plane(server, schedule=False, controllers="serviceaccount") as client:
            await client.delete(CONFIG_MAPS, "owner", "default")  # while nobody collects
        async with control_plane(server, schedule=False) as client:
            await eventually(lambda: absent(client, "child"))
