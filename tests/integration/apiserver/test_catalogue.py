"""Kinds whose effect lies elsewhere, through the front door: what the server makes itself, what it answers from nothing."""

import pytest

from apimachinery.gvk import GroupVersion
from controlplane.apiserver.config import Config, Serving
from controlplane.apiserver.poststart import PostStart
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


async def test_flow_control_objects_come_back_and_schemas_say_whether_their_level_exists(server: TestServer) -> None:
    schema = {"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "nowhere"}}}
    assert (await server.request("POST", f"{FLOW}/flowschemas", schema)).status == 201
    assert (await server.request("DELETE", f"{FLOW}/flowschemas/catch-all")).status == 200
    merge = "application/merge-patch+json"
    changed = {"spec": {"matchingPrecedence": 77}}
    await server.request("PATCH", f"{FLOW}/flowschemas/probes", changed, content_type=merge)
    kept = {"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}, **changed}
    await server.request("PATCH", f"{FLOW}/flowschemas/system-nodes", kept, content_type=merge)
    stores = server.running.stores
    upkeep = PostStart(Config(Serving(server.ca_file, server.ca_file)), stores, [GroupVersion("", "v1")])
    await upkeep.mend("127.0.0.1", 6443)
    listed = (await server.request("GET", f"{FLOW}/flowschemas")).json["items"]
    held = {one["metadata"]["name"]: one for one in listed}
    assert held["catch-all"]["spec"]["matchingPrecedence"] == 10000
    assert held["probes"]["spec"]["matchingPrecedence"] == 2
    assert held["system-nodes"]["spec"]["matchingPrecedence"] == 77
    dangling = {name: one["status"]["conditions"][0]["status"] for name, one in held.items()}
    assert dangling.pop("mine") == "True"
    assert set(dangling.values()) == {"False"}
    assert len((await server.request("GET", SERVICES)).json["items"]) > 1
    await upkeep.run("127.0.0.1", 6443)  # a start that serves nothing else
    services = (await server.request("GET", SERVICES)).json["items"]
    assert [one["metadata"]["name"] for one in services] == ["v1."]


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


BUDGET = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
CRON = {
    "metadata": {"name": "c"},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}},
    },
}
SLICE = {
    "metadata": {"name": "s"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "n", "topology": {"topology.kubernetes.io/zone": "z"}}],
}
CLAIM = {
    "metadata": {"name": "r"},
    "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}},
}


async def test_old_and_new_versions_show_one_object() -> None:
    async with running_apiserver(runtime_config={"api/all": "true"}) as server:
        for group, plural, body, new in (
            ("policy", "poddisruptionbudgets", BUDGET, "v1"),
            ("batch", "cronjobs", CRON, "v1"),
            ("discovery.k8s.io", "endpointslices", SLICE, "v1"),
            ("resource.k8s.io", "resourceclaims", CLAIM, "v1"),
        ):
            old = f"/apis/{group}/v1beta1/namespaces/default/{plural}"
            made = await server.request("POST", old, body)
            assert made.status == 201, made.json
            assert made.json["apiVersion"] == f"{group}/v1beta1"
            name = body["metadata"]["name"]
            shown = (await server.request("GET", f"/apis/{group}/{new}/namespaces/default/{plural}/{name}")).json
            assert (shown["apiVersion"], shown["metadata"]["uid"]) == (f"{group}/{new}", made.json["metadata"]["uid"])
            patch = {"metadata": {"labels": {"touched": "yes"}}}
            changed = await server.request("PATCH", f"{old}/{name}", patch, content_type="application/merge-patch+json")
            assert changed.status == 200, changed.json
            listed = (await server.request("GET", f"/apis/{group}/{new}/{plural}?labelSelector=touched=yes")).json["items"]
            assert [one["metadata"]["name"] for one in listed] == [name]
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/s"
        assert (await server.request("GET", slices)).json["endpoints"][0]["zone"] == "z"
        claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/r"
        exactly = (await server.request("GET", claims)).json["spec"]["devices"]["requests"][0]["exactly"]
        assert exactly == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}


async def test_with_everything_on_every_version_has_discovery_and_openapi() -> None:
    async with running_apiserver(runtime_config={"api/all": "true"}) as server:
        paths = (await server.request("GET", "/openapi/v3")).json["paths"]
        for group in (await server.request("GET", "/apis")).json["groups"]:
            for version in group["versions"]:
                root = f"apis/{version['groupVersion']}"
                assert (await server.request("GET", f"/{root}")).status == 200
                document = await server.request("GET", paths[root]["serverRelativeURL"])
                assert document.status == 200
                assert document.json["components"]["schemas"]
                for resource in (await server.request("GET", f"/{root}")).json["resources"]:
                    if "list" in resource["verbs"]:
                        answer = await server.request("GET", f"/{root}/{resource['name']}")
                        assert (answer.status, answer.json["kind"]) == (200, f"{resource['kind']}List")


OPTIONAL = (
    "policy/v1beta1",
    "batch/v1beta1",
    "discovery.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "storagemigration.k8s.io/v1beta1",
)


async def test_optional_versions_are_not_there_unless_asked_for(server: TestServer) -> None:
    for version in OPTIONAL:
        assert (await server.request("GET", f"/apis/{version}")).status == 404


async def test_what_clients_may_not_see_still_holds() -> None:
    """A budget that was written in another version stops an eviction."""
    async with running_apiserver(runtime_config={"policy/v1": "false", "policy/v1beta1": "true"}) as server:
        budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
        assert (await server.request("POST", budgets, BUDGET)).status == 201
        assert (await server.request("GET", "/apis/policy/v1")).status == 404
        await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        pod = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await server.request("POST", "/api/v1/namespaces/default/pods", pod)).status == 201
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        merge = "application/merge-patch+json"
        status = await server.request("PATCH", "/api/v1/namespaces/default/pods/p/status", {"status": ready}, content_type=merge)
        assert status.status == 200, status.json
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        answer = await server.request("POST", "/api/v1/namespaces/default/pods/p/eviction", eviction)
        assert (answer.status, answer.json["reason"]) == (429, "TooManyRequests")
