"""Kinds whose effect lies elsewhere, through the front door: what the server makes itself, what it answers from nothing."""

import pytest

from tests.support.apiserver import TestServer, running_apiserver

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_flow_control_and_api_services_exist_from_the_start(server: TestServer) -> None:
    schemas = (await server.request("GET", f"{FLOW}/flowschemas")).json["items"]
    levels = (await server.request("GET", f"{FLOW}/prioritylevelconfigurations")).json["items"]
    assert {one["metadata"]["name"] for one in levels} >= {"exempt", "catch-all", "system", "node-high", "global-default"}
    named = {one["spec"]["priorityLevelConfiguration"]["name"] for one in schemas}
    assert named <= {one["metadata"]["name"] for one in levels}
    services = (await server.request("GET", SERVICES)).json["items"]
    assert {"v1.", "v1.apps", "v2.autoscaling", "v1.authentication.k8s.io"} <= {one["metadata"]["name"] for one in services}
    assert all(one["status"]["conditions"][0]["status"] == "True" for one in services)


async def test_component_statuses_are_asked_and_deprecated(server: TestServer) -> None:
    answer = await server.request("GET", "/api/v1/componentstatuses")
    assert [one["metadata"]["name"] for one in answer.json["items"]] == ["scheduler", "controller-manager", "etcd-0"]
    assert "v1 ComponentStatus is deprecated in v1.19+" in answer.headers["Warning"]
    storage = (await server.request("GET", "/api/v1/componentstatuses/etcd-0")).json
    assert storage["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    assert (await server.request("GET", "/api/v1/componentstatuses/nobody")).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, 200),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}, 200),  # a merge patch keeps what it omits
        ({"requests": {"cpu": None}}, 422),
        ({"limits": {"ephemeral-storage": "1Gi"}}, 422),
    ],
)
async def test_a_pod_is_resized_through_its_subresource(server: TestServer, body: dict[str, object], status: int) -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await server.request("POST", "/api/v1/namespaces/default/pods", pod)).status == 201
    where = "/api/v1/namespaces/default/pods/p/resize"
    patch = {"spec": {"containers": [{"name": "c", "resources": body}]}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    answer = await server.request("PATCH", where, patch, headers=headers)
    assert answer.status == status, answer.json
    assert (answer.json["metadata"]["generation"] == 2) if status == 200 else answer.json["reason"] == "Invalid"


async def test_a_version_is_served_when_asked_for_and_not_otherwise(server: TestServer) -> None:
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    made = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}}
    assert (await server.request("POST", path, made)).status == 201

    async with running_apiserver(runtime_config={"autoscaling/v2": "false"}) as other:
        groups = {one["name"]: one for one in (await other.request("GET", "/apis")).json["groups"]}
        assert [one["version"] for one in groups["autoscaling"]["versions"]] == ["v1"]
        assert (await other.request("GET", path.replace("/v1/", "/v2/"))).status == 404
        assert (await other.request("POST", path, made)).status == 201
        names = {one["metadata"]["name"] for one in (await other.request("GET", SERVICES)).json["items"]}
        assert "v1.autoscaling" in names
        assert "v2.autoscaling" not in names
