"""Writes to parts of objects: binding, eviction, status, scale, finalize, ephemeral containers."""

from typing import Any

import pytest

from tests.support.apiserver import TestServer

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def pod(server: TestServer) -> Any:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    body = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return (await server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", **body})).json


@pytest.mark.parametrize("path", [f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"], ids=["new-door", "old-door"])
async def test_binding_sets_the_node_and_says_so(server: TestServer, pod: Any, path: str) -> None:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    bound = await server.request("POST", path, body, token="scheduler-token" if path.startswith(PODS) else server.admin_token)
    assert (bound.status, bound.json["status"]) == (201, "Success")
    now = (await server.request("GET", f"{PODS}/p")).json
    assert now["spec"]["nodeName"] == "n1"
    assert [(one["type"], one["status"]) for one in now["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await server.request("POST", path, body)
    assert (again.status, again.json["reason"]) == (409, "Conflict")
    assert "is already assigned to node" in again.json["message"]


async def test_a_running_pod_is_deleted_gracefully(server: TestServer, pod: Any) -> None:
    await server.request("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    marked = (await server.request("DELETE", f"{PODS}/p")).json
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await server.request("DELETE", f"{PODS}/p")).json["metadata"] == marked["metadata"]
    gone = await server.request("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert gone.status == 200
    assert (await server.request("GET", f"{PODS}/p")).status == 404


async def test_a_pod_without_a_node_goes_at_once(server: TestServer, pod: Any) -> None:
    assert (await server.request("DELETE", f"{PODS}/p")).json["kind"] == "Pod"
    assert (await server.request("GET", f"{PODS}/p")).status == 404


async def test_evictions_ask_disruption_budgets(server: TestServer, pod: Any) -> None:
    status = {"status": {"phase": "Running"}}
    await server.request("PATCH", f"{PODS}/p/status", status, content_type=MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    await server.request("POST", budgets, budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await server.request("POST", f"{PODS}/p/eviction", eviction)
    assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
    assert refused.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.json["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await server.request("DELETE", f"{budgets}/b")
    assert (await server.request("POST", f"{PODS}/p/eviction", eviction)).status == 201
    assert (await server.request("GET", f"{PODS}/p")).status == 404


async def test_status_and_spec_are_written_apart(server: TestServer, pod: Any) -> None:
    changed = {**pod, "status": {"phase": "Running"}, "spec": {**pod["spec"], "hostNetwork": True}}
    after = (await server.request("PUT", f"{PODS}/p/status", changed)).json
    assert after["status"]["phase"] == "Running"
    assert "hostNetwork" not in after["spec"]
    relabelled = {**after, "status": {"phase": "Failed"}, "metadata": {**after["metadata"], "labels": {"app": "other"}}}
    after = (await server.request("PUT", f"{PODS}/p", relabelled)).json
    assert (after["status"]["phase"], after["metadata"]["labels"]) == ("Running", {"app": "other"})


async def test_stale_writes_to_a_subresource_conflict(server: TestServer, pod: Any) -> None:
    await server.request("PATCH", f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    container = {"name": "debug", "image": "i:2"}
    body = {**pod, "spec": {**pod["spec"], "ephemeralContainers": [container]}}
    stale = await server.request("PUT", f"{PODS}/p/ephemeralcontainers", body)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    patch = {"spec": {"ephemeralContainers": [container]}}
    strategic = "application/strategic-merge-patch+json"
    fresh = await server.request("PATCH", f"{PODS}/p/ephemeralcontainers", patch, content_type=strategic)
    assert fresh.json["spec"]["ephemeralContainers"][0]["name"] == "debug"


async def test_scaling(server: TestServer) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await server.request("POST", DEPLOYMENTS, body)
    scale = (await server.request("GET", f"{DEPLOYMENTS}/d/scale")).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    scaled = await server.request("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 0}})
    assert scaled.json["spec"] == {}
    stale = await server.request("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 9}})
    assert stale.status == 409
    parent = (await server.request("GET", f"{DEPLOYMENTS}/d")).json
    assert (parent["spec"]["replicas"], parent["metadata"]["generation"]) == (0, 2)
    refused = await server.request("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")


async def test_a_namespace_goes_when_its_finalizers_do(server: TestServer) -> None:
    await server.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    going = (await server.request("DELETE", "/api/v1/namespaces/n")).json
    assert going["status"]["phase"] == "Terminating"
    refused = await server.request("POST", "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "a"}})
    assert refused.status == 403
    assert "because it is being terminated" in refused.json["message"]
    done = await server.request("PUT", "/api/v1/namespaces/n/finalize", {**going, "spec": {"finalizers": []}})
    assert done.status == 200
    assert (await server.request("GET", "/api/v1/namespaces/n")).status == 404
    assert (await server.request("DELETE", "/api/v1/namespaces/default")).status == 403
