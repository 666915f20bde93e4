"""A namespace stays within its ResourceQuotas, however many write at once, and gets back what goes."""

import asyncio
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import Object
from apimachinery.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, RESOURCE_QUOTAS, SERVICES
from client.rest import Client
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import control_plane, eventually

CONTROLLERS = "resourcequota,serviceaccount"


def quota(name: str = "q", hard: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard or {}, **spec}}


def pod(name: str, requests: dict[str, str] | None = None, **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "web:1"}
    if requests:
        container["resources"] = {"requests": requests, "limits": requests}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def used(client: Client, wanted: dict[str, str], name: str = "q") -> None:
    async def counted() -> bool:
        held = await client.get(RESOURCE_QUOTAS, name, "default")
        assert held.get("status", {}).get("used") == wanted
        assert held["status"]["hard"] == held["spec"]["hard"]
        return True

    await eventually(counted)


async def refusal(client: Client, gvr: GroupVersionResource, obj: Object) -> str:
    with pytest.raises(StatusError) as refused:
        await client.create(gvr, obj)
    assert refused.value.code == 403
    return str(refused.value.message)


async def test_pods_are_counted_claimed_and_given_back() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await client.create(PODS, pod("early", {"cpu": "500m", "memory": "1Gi"}))
        hard = {"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi", "count/pods": "5"}
        await client.create(RESOURCE_QUOTAS, quota(hard=hard))
        await used(client, {"pods": "1", "requests.cpu": "500m", "limits.memory": "1Gi", "count/pods": "1"})
        assert await refusal(client, PODS, pod("silent")) == (
            'pods "silent" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
        )
        assert await refusal(client, PODS, pod("big", {"cpu": "501m", "memory": "1Gi"})) == (
            'pods "big" is forbidden: exceeded quota: q, requested: requests.cpu=501m, used: requests.cpu=500m, '
            "limited: requests.cpu=1"
        )
        await client.create(PODS, pod("fits", {"cpu": "500m", "memory": "1Gi"}))
        held = await client.get(RESOURCE_QUOTAS, "q", "default")  # at once: claimed before the pod was stored
        assert held["status"]["used"] == {"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi", "count/pods": "2"}
        assert "pods=1, used: pods=2, limited: pods=2" in await refusal(client, PODS, pod("more", {"cpu": "0", "memory": "0"}))
        await client.delete(PODS, "early", "default")
        await used(client, {"pods": "1", "requests.cpu": "500m", "limits.memory": "1Gi", "count/pods": "1"})
        await client.patch(PODS, "fits", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")
        await used(client, {"pods": "0", "requests.cpu": "0", "limits.memory": "0", "count/pods": "1"})


async def test_many_writers_get_no_more_than_there_is() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        await client.create(RESOURCE_QUOTAS, quota(hard={"count/configmaps": "7"}))
        await used(client, {"count/configmaps": "0"})
        tries = (client.create(CONFIG_MAPS, config_map(f"c{number}")) for number in range(20))
        answers = await asyncio.gather(*tries, return_exceptions=True)
        assert [isinstance(each, dict) for each in answers].count(True) == 7
        assert {each.code for each in answers if isinstance(each, StatusError)} == {403}
        assert len((await client.list(CONFIG_MAPS, "default"))["items"]) == 7
        await used(client, {"count/configmaps": "7"})
        first = next(each for each in answers if isinstance(each, dict))
        await client.delete(CONFIG_MAPS, first["metadata"]["name"], "default")
        await used(client, {"count/configmaps": "6"})
        await client.create(CONFIG_MAPS, config_map("dry"), dry_run=True)
        await used(client, {"count/configmaps": "6"})


async def test_scopes_choose_what_counts() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        for name, scope in (
            ("ends", "Terminating"),
            ("stays", "NotTerminating"),
            ("poor", "BestEffort"),
            ("rich", "NotBestEffort"),
        ):
            await client.create(RESOURCE_QUOTAS, quota(name, {"pods": "3"}, scopes=[scope]))
            await used(client, {"pods": "0"}, name)
        selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}
        await client.create(RESOURCE_QUOTAS, quota("vip", {"pods": "0"}, scopeSelector=selector))
        await used(client, {"pods": "0"}, "vip")
        await client.create(PODS, pod("a"))
        await client.create(PODS, pod("b", {"cpu": "1"}, activeDeadlineSeconds=60))
        for name, count in (("ends", "1"), ("stays", "1"), ("poor", "1"), ("rich", "1")):
            await used(client, {"pods": count}, name)
        assert "exceeded quota: vip" in await refusal(client, PODS, pod("v", priorityClassName="system-node-critical"))
        for name, count in (("stays", "1"), ("poor", "1")):  # what the last quota refused stays on no other's account
            await used(client, {"pods": count}, name)


async def test_services_and_object_counts() -> None:
    async with running_apiserver() as server, control_plane(server, schedule=False, controllers=CONTROLLERS) as client:
        hard = {
            "services": "2",
            "services.nodeports": "1",
            "count/deployments.apps": "1",
            "secrets": "9",
            "count/nothing.example.com": "1",
        }
        await client.create(RESOURCE_QUOTAS, quota(hard=hard))
        start = {**dict.fromkeys(hard, "0"), "services": "1"}  # the kubernetes Service
        await used(client, start)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
        await client.create(SERVICES, {**service, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
        await used(client, {**start, "services": "2"})
        await client.patch(SERVICES, "s", {"spec": {"type": "NodePort"}}, namespace="default")
        await used(client, {**start, "services": "2", "services.nodeports": "1"})
        await client.patch(SERVICES, "s", {"spec": {"type": "ClusterIP"}}, namespace="default")
        await used(client, {**start, "services": "2"})
        assert "requested: services=1, used: services=2, limited: services=2" in await refusal(
            client, SERVICES, {**service, "metadata": {"name": "t", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
        )
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        metadata = {"name": "d", "namespace": "default"}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        await used(client, {**start, "services": "2", "count/deployments.apps": "1"})
