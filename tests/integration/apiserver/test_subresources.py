"""Writes to parts of objects: binding, eviction, status, scale, finalize, ephemeral containers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from component.features import from_flag
from tests.support.apiserver import TestServer, running_apiserver

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


@pytest.fixture(params=[True, False], ids=["labels-on", "labels-off"])
async def labelling(request: pytest.FixtureRequest) -> AsyncIterator[tuple[TestServer, bool]]:
    features = from_flag({"PodTopologyLabelsAdmission": str(request.param).lower()})
    async with running_apiserver(features=features) as started:
        labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "disk": "ssd"}
        await started.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})
        await started.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        yield started, request.param


@pytest.mark.parametrize("door", ["binding", "nodeName"])
async def test_a_pod_gets_zone_and_region_of_its_node(labelling: tuple[TestServer, bool], door: str) -> None:
    server, enabled = labelling
    own = {"app": "web", "topology.kubernetes.io/zone": "own"}
    spec = {"containers": [{"name": "c", "image": "i:1"}], **({"nodeName": "n1"} if door == "nodeName" else {})}
    await server.request("POST", PODS, {"metadata": {"name": "p", "labels": own}, "spec": spec})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    if door == "binding":
        assert (await server.request("POST", f"{PODS}/p/binding", binding)).status == 201

    labels = (await server.request("GET", f"{PODS}/p")).json["metadata"]["labels"]

    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"} if enabled else {}
    assert labels == {**own, **zone}


async def test_binding_ends_a_nomination(server: TestServer, pod: Any) -> None:
    nominated = {"status": {"nominatedNodeName": "n2"}}
    await server.request("PATCH", f"{PODS}/p/status", nominated, content_type=MERGE)
    await server.request("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}})
    assert "nominatedNodeName" not in (await server.request("GET", f"{PODS}/p")).json["status"]


async def test_every_subresource_of_discovery_answers_its_verbs_and_no_others(server: TestServer) -> None:
    """404 with a name means that there is no such object; without one, that there is no such door."""
    methods = {"create": "POST", "get": "GET", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
    checked = set()
    groups = (await server.request("GET", "/apis")).json["groups"]
    versions = [f"apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
    for root in ["api/v1", *versions]:
        for one in (await server.request("GET", f"/{root}")).json["resources"]:
            plural, _, part = one["name"].partition("/")
            if not part:
                continue
            space = "namespaces/default/" if one["namespaced"] else ""
            for verb, method in methods.items():
                path = f"/{root}/{space}{plural}/nothing/{part}" + ("?command=a" if part in ("exec", "attach") else "")
                media = MERGE if verb == "patch" else "application/json"
                answer = await server.request(method, path, None if verb in ("get", "delete") else {}, content_type=media)
                served = answer.status != 405 and b"could not find the requested resource" not in answer.body
                assert served == (verb in one["verbs"]), (path, verb, answer.status, answer.body[:200])
                checked.add(one["name"])
    assert {"pods/exec", "pods/resize", "pods/eviction", "nodes/proxy", "serviceaccounts/token"} <= checked


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
    await server.request("PATCH", f"{budgets}/b/status", {"status": {"observedGeneration": 1}}, content_type=MERGE)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await server.request("POST", f"{PODS}/p/eviction", eviction)
    assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
    assert refused.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.json["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await server.request("DELETE", f"{budgets}/b")
    assert (await server.request("POST", f"{PODS}/p/eviction", eviction)).status == 201
    assert (await server.request("GET", f"{PODS}/p")).status == 404


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}


async def crowd(server: TestServer, count: int, *, ready: bool = True, phase: str = "Running") -> list[str]:
    """Pods under one budget."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    for number in range(count):
        body = {
            "metadata": {"name": f"p{number}", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", **body})
        await server.request("POST", f"{PODS}/p{number}/binding", {"metadata": {"name": f"p{number}"}, "target": {"name": "n1"}})
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
        await server.request("PATCH", f"{PODS}/p{number}/status", {"status": status}, content_type=MERGE)
    return [f"p{number}" for number in range(count)]


async def budget(server: TestServer, *, observed: int = 1, policy: str = "IfHealthyBudget", **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": policy}
    await server.request(
        "POST", BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    )
    counted = {"observedGeneration": observed, "expectedPods": 3, **status}
    await server.request("PATCH", f"{BUDGETS}/b/status", {"status": counted}, content_type=MERGE)


async def evict(server: TestServer, name: str, query: str = "") -> tuple[int, str]:
    answer = await server.request("POST", f"{PODS}/{name}/eviction{query}", {**EVICTION, "metadata": {"name": name}})
    causes = (answer.json.get("details") or {}).get("causes") or [{"message": answer.json.get("message", "")}]
    return answer.status, causes[0]["message"]


async def test_evictions_at_once_share_what_is_allowed(server: TestServer) -> None:
    names = await crowd(server, 3)
    await budget(server, disruptionsAllowed=2, currentHealthy=3, desiredHealthy=1)
    assert (await evict(server, "p0", "?dryRun=All"))[0] == 201
    assert (await server.request("GET", f"{BUDGETS}/b")).json["status"]["disruptionsAllowed"] == 2
    results = await asyncio.gather(*(evict(server, name) for name in names))
    assert sorted(code for code, _ in results) == [201, 201, 429], results
    assert "The disruption budget b needs 1 healthy pods and has 3 currently" in [text for _, text in results]
    status = (await server.request("GET", f"{BUDGETS}/b")).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {name for name, (code, _) in zip(names, results, strict=True) if code == 201}
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("DisruptionAllowed", "False", "InsufficientPods")
    ]
    marked = [(await server.request("GET", f"{PODS}/{name}")).json for name in status["disruptedPods"]]
    for pod in marked:
        assert pod["metadata"]["deletionTimestamp"]
        told = {one["type"]: one.get("reason") for one in pod["status"]["conditions"]}
        assert told["DisruptionTarget"] == "EvictionByEvictionAPI"


async def test_a_refused_eviction_is_not_repeated_by_libraries(server: TestServer) -> None:
    await crowd(server, 1)
    await budget(server, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    answer = await server.request("POST", f"{PODS}/p0/eviction", {**EVICTION, "metadata": {"name": "p0"}})
    assert (answer.status, answer.headers.get("Retry-After")) == (429, None)
    conditions = (await server.request("GET", f"{PODS}/p0")).json["status"]["conditions"]
    assert "DisruptionTarget" not in [one["type"] for one in conditions]


@pytest.mark.parametrize(
    ("status", "ready", "expected"),
    [
        (
            {"observed": 0, "disruptionsAllowed": 1},
            True,
            (429, "The disruption budget b is still being processed"),
        ),
        ({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}, False, (201, "")),
        ({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2}, False, (429, "needs 2 healthy pods and has 1")),
        ({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "policy": "AlwaysAllow"}, False, (201, "")),
        ({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "policy": "AlwaysAllow"}, True, (429, "needs 2")),
    ],
    ids=["not-counted-yet", "unready-is-free", "unready-and-too-few", "unready-always", "ready-never-always"],
)
async def test_what_an_eviction_costs(server: TestServer, status: dict[str, Any], ready: bool, expected: tuple[int, str]) -> None:
    await crowd(server, 1, ready=ready)
    await budget(server, **status)
    code, text = await evict(server, "p0")
    assert (code, expected[1] in text) == (expected[0], True)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_cost_nothing(server: TestServer, phase: str) -> None:
    await crowd(server, 1, phase=phase)
    await budget(server, disruptionsAllowed=0, currentHealthy=0, desiredHealthy=1)
    assert (await evict(server, "p0"))[0] == 201
    assert "disruptedPods" not in (await server.request("GET", f"{BUDGETS}/b")).json["status"]


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
