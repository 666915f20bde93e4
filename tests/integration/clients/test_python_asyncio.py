"""The Python package ``kubernetes_asyncio``, unmodified: the same as ``test_python.py``, on the event loop."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes_asyncio import client, config, dynamic, utils, watch
from kubernetes_asyncio.leaderelection import electionconfig
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes_asyncio.stream import WsApiClient

from tests.integration.clients.conftest import Cluster

MERGE = "application/merge-patch+json"


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.api.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as made:
        yield made


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "t"}), data=data)


async def test_typed_objects_come_and_go(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    made = await core.create_namespaced_config_map("default", config_map("a", colour="red"))
    made.data["colour"] = "blue"
    assert (await core.replace_namespaced_config_map("a", "default", made)).data == {"colour": "blue"}
    with pytest.raises(client.ApiException) as conflict:
        await core.replace_namespaced_config_map("a", "default", made)
    assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "Conflict")
    listed = await core.list_namespaced_config_map("default", label_selector="app in (t)")
    assert [item.metadata.name for item in listed.items] == ["a"]
    assert (await core.delete_namespaced_config_map("a", "default")).status == "Success"
    with pytest.raises(client.ApiException) as absent:
        await core.read_namespaced_config_map("a", "default")
    assert absent.value.status == 404
    scale = {"spec": {"replicas": 3}}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await client.AppsV1Api(api).create_namespaced_deployment("default", deployment)
    assert (await client.AppsV1Api(api).patch_namespaced_deployment_scale("web", "default", scale)).status.selector == "app=web"


@pytest.mark.parametrize(
    ("content_type", "body", "after"),
    [
        ("application/json-patch+json", [{"op": "replace", "path": "/data/colour", "value": "blue"}], {"colour": "blue"}),
        ("application/merge-patch+json", {"data": {"colour": None, "size": "1"}}, {"size": "1"}),
        ("application/strategic-merge-patch+json", {"data": {"size": "1"}}, {"colour": "red", "size": "1"}),
    ],
    ids=["json", "merge", "strategic"],
)
async def test_every_kind_of_patch(api: client.ApiClient, content_type: str, body: Any, after: dict[str, str]) -> None:
    core = client.CoreV1Api(api)
    await core.create_namespaced_config_map("default", config_map("a", colour="red"))
    assert (await core.patch_namespaced_config_map("a", "default", body, _content_type=content_type)).data == after


async def test_dynamic_client(api: client.ApiClient) -> None:
    async with dynamic.DynamicClient(api) as dynamic_client:
        maps = await dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"colour": "red"}}
        await maps.server_side_apply(body=body, namespace="default", field_manager="one")
        blue = {**body, "data": {"colour": "blue"}}
        # this client raises nothing here: it hands out the Status
        refused = await maps.server_side_apply(body=blue, namespace="default", field_manager="two")
        assert (refused.kind, refused.code, refused.reason) == ("Status", 409, "Conflict")
        forced = await maps.server_side_apply(body=blue, namespace="default", field_manager="two", force_conflicts=True)
        assert forced.data.colour == "blue"
        async with watch.Watch() as watcher:
            async for event in maps.watch(namespace="default", name="a", timeout=5, watcher=watcher):
                assert (event["type"], event["object"].data.colour) == ("ADDED", "blue")
                break
        await maps.delete(name="a", namespace="default")
        assert (await maps.get(namespace="default")).items == []


async def test_watch(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    since = (await core.list_namespaced_config_map("default")).metadata.resource_version
    await core.create_namespaced_config_map("default", config_map("a", colour="red"))
    await core.patch_namespaced_config_map("a", "default", {"data": {"colour": "blue"}}, _content_type=MERGE)
    await core.delete_namespaced_config_map("a", "default")
    seen = []
    maps, since_then = core.list_namespaced_config_map, {"resource_version": since, "timeout_seconds": 10}
    async with watch.Watch().stream(maps, "default", **since_then) as events:
        async for event in events:
            seen.append((event["type"], event["object"].data["colour"]))
            if len(seen) == 3:
                break
    assert seen == [("ADDED", "red"), ("MODIFIED", "blue"), ("DELETED", "blue")]


async def test_exec_by_websocket(cluster: Cluster, api: client.ApiClient) -> None:
    async with WsApiClient(api.configuration) as streaming:
        core = client.CoreV1Api(streaming)
        opened = await core.connect_get_namespaced_pod_exec(
            "p", "default", command=["cat"], stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False
        )
        async with opened as socket:
            await socket.send_bytes(b"\0hello\n")
            assert await socket.receive_bytes(timeout=10) in (b"\1", b"\1hello\n")
            await socket.close()
        failed = await core.connect_get_namespaced_pod_exec(
            "p", "default", command=["fail"], stdin=False, stdout=True, stderr=True, tty=False, _preload_content=False
        )
        said, code = b"", None
        async with failed as socket:
            async for message in socket:
                channel, data = message.data[0], message.data[1:]
                said += data if channel == 2 else b""
                code = WsApiClient.parse_error_data(data) if channel == 3 else code
        assert (said, code) == (b"oh no\n", 3)
        flood = await core.connect_get_namespaced_pod_exec(
            "p", "default", command=["flood"], stdin=False, stdout=True, stderr=True, tty=False
        )
        assert len(flood) == 10_000_000


async def test_create_from_yaml(api: client.ApiClient, manifests: str) -> None:
    await utils.create_from_yaml(api, manifests, namespace="default")
    assert (await client.CoreV1Api(api).read_namespaced_secret("hidden", "default")).data == {"word": "c2VzYW1l"}
    assert (await client.AppsV1Api(api).read_namespaced_deployment("web", "default")).spec.replicas == 1
    with pytest.raises(utils.FailToCreateError) as again:
        await utils.create_from_yaml(api, manifests, namespace="default")
    refused = [error for document in again.value.api_exceptions for error in document.api_exceptions]
    assert [error.status for error in refused] == [409, 409, 409, 409]


@pytest.mark.slow
async def test_leader_election(api: client.ApiClient) -> None:
    leases = client.CoordinationV1Api(api)
    started, stopped = asyncio.Event(), asyncio.Event()

    async def lead() -> None:
        started.set()
        await asyncio.sleep(60)

    async def stop() -> None:
        stopped.set()

    lock = LeaseLock("lead", "default", "one", api)
    durations = {"lease_duration": 4, "renew_deadline": 2, "retry_period": 1}
    election = LeaderElection(electionconfig.Config(lock, onstarted_leading=lead, onstopped_leading=stop, **durations))
    running = asyncio.ensure_future(election.run())
    async with asyncio.timeout(20):
        await started.wait()
        assert (await leases.read_namespaced_lease("lead", "default")).spec.holder_identity == "one"
        usurp = {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 60}}
        await leases.patch_namespaced_lease("lead", "default", usurp, _content_type=MERGE)
        await stopped.wait()
        await running
