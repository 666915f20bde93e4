"""Pods whose claims are bound on the way to a node: scheduler, binder and provisioner against the real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import add_node, control_plane, eventually
from tests.support.storage import claim_volume, make_claim, make_class, make_volume

CONTROLLERS = "persistentvolume-binder,local-path,serviceaccount"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    flags = ["--local-path-dir=/var/lib/x"]
    async with running_apiserver() as server, control_plane(server, flags, controllers=CONTROLLERS) as client:
        yield client


async def create_pod(client: Client, name: str, *claims: str) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "volumes": [claim_volume(each, each) for each in claims]}
    await client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    )


async def node_of(client: Client, name: str) -> str:
    return str((await client.get(PODS, name, "default"))["spec"].get("nodeName") or "")


async def volume_of(client: Client, name: str) -> str:
    claim = await client.get(PERSISTENT_VOLUME_CLAIMS, name, "default")
    return str(claim["spec"].get("volumeName") or "") if claim["status"]["phase"] == "Bound" else ""


async def test_local_volumes_are_bound_where_the_pod_goes(client: Client) -> None:
    for name in ("a", "b"):
        await add_node(client, name, pods="1")
        local = make_volume(f"on-{name}", storage_class="late", node=name, local={"path": "/mnt"})
        await client.create(PERSISTENT_VOLUMES, local)
    await client.create(STORAGE_CLASSES, make_class("late", volumeBindingMode="WaitForFirstConsumer"))
    for name in ("one", "two"):
        await client.create(PERSISTENT_VOLUME_CLAIMS, make_claim(name, storage_class="late"))
        await create_pod(client, name, name)
    for name in ("one", "two"):
        node = await eventually(lambda name=name: node_of(client, name))
        assert await eventually(lambda name=name: volume_of(client, name)) == f"on-{node}"


async def test_a_volume_is_made_on_the_node_that_the_scheduler_chose(client: Client) -> None:
    await add_node(client, "a")
    await create_pod(client, "p", "c")
    await client.create(PERSISTENT_VOLUME_CLAIMS, make_claim("c", storage_class=None))
    assert await eventually(lambda: node_of(client, "p")) == "a"
    volume = await client.get(PERSISTENT_VOLUMES, await volume_of(client, "c"))
    required = volume["spec"]["nodeAffinity"]["required"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["a"]


async def test_pods_that_wait_for_a_provisioner_do_not_hold_up_the_others(client: Client) -> None:
    await add_node(client, "a")
    await client.create(STORAGE_CLASSES, make_class("slow", "example.com/slow", volumeBindingMode="WaitForFirstConsumer"))
    for number in range(40):  # more than there are slots for bindings
        await client.create(PERSISTENT_VOLUME_CLAIMS, make_claim(f"c{number}", storage_class="slow"))
        await create_pod(client, f"waits-{number}", f"c{number}")
    await create_pod(client, "quick")
    assert await eventually(lambda: node_of(client, "quick")) == "a"
