"""Parts of objects that are written by themselves, on the real API server."""

from typing import Any

import pytest

from tests.support.apiserver import running_apiserver

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def binding(node: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}


async def start(server: Any) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)


async def test_a_pod_is_bound_once() -> None:
    async with running_apiserver() as server:
        await start(server)
        assert (await server.request("POST", PODS, pod())).status == 201
        assert (await server.request("POST", f"{PODS}/p/binding", binding("n1"))).status == 201
        bound = (await server.request("GET", f"{PODS}/p")).json
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
        again = await server.request("POST", f"{PODS}/p/binding", binding("n2"))
        assert again.status == 409
        assert again.json["message"].endswith('pod p is already assigned to node "n1"')
        chosen = (await server.request("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn1")).json["items"]
        assert len(chosen) == 1


async def test_a_bound_pod_waits_for_its_kubelet_and_then_goes() -> None:
    async with running_apiserver() as server:
        await start(server)
        await server.request("POST", PODS, pod())
        await server.request("POST", f"{PODS}/p/binding", binding("n1"))
        going = (await server.request("DELETE", f"{PODS}/p")).json
        assert going["metadata"]["deletionGracePeriodSeconds"] == 30
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        assert (await server.request("DELETE", f"{PODS}/p", options)).status == 200
        assert (await server.request("GET", f"{PODS}/p")).status == 404


async def test_an_ephemeral_container_joins_a_pod() -> None:
    async with running_apiserver() as server:
        await start(server)
        await server.request("POST", PODS, pod())
        added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "i:1", "targetContainerName": "c"}]}}
        strategic = "application/strategic-merge-patch+json"
        answer = await server.request("PATCH", f"{PODS}/p/ephemeralcontainers", added, content_type=strategic)
        assert answer.status == 200
        assert answer.json["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"] == "File"
        direct = await server.request("PATCH", f"{PODS}/p", {"spec": {"ephemeralContainers": None}}, content_type=MERGE)
        assert direct.status == 422


async def test_a_certificate_request_is_approved_apart_from_its_status() -> None:
    async with running_apiserver() as server:
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
        spec = {"request": pem, "signerName": "example.com/x", "usages": ["client auth"], "username": "root"}
        wish = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "c"},
            "spec": spec,
        }
        made = (await server.request("POST", path, wish)).json
        assert made["spec"]["username"] == "admin"
        assert "system:masters" in made["spec"]["groups"]
        made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
        ignored = (await server.request("PUT", f"{path}/c/status", made)).json
        assert not ignored.get("status", {}).get("conditions")
        made["metadata"]["resourceVersion"] = ignored["metadata"]["resourceVersion"]
        approved = await server.request("PUT", f"{path}/c/approval", made)
        assert approved.status == 200
        assert approved.json["status"]["conditions"][0]["type"] == "Approved"


@pytest.mark.parametrize("part", ["approval", "status"])
async def test_parts_of_a_certificate_request_are_written_with_labels_and_annotations(part: str) -> None:
    async with running_apiserver() as server:
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"
        wish = {
            "metadata": {"name": "c", "labels": {"a": "b"}},
            "spec": {"request": pem, "signerName": "example.com/x", "usages": ["client auth"]},
        }
        assert (await server.request("POST", path, wish)).status == 201
        change = {"metadata": {"annotations": {"patched": "true"}, "labels": None}}
        patched = await server.request("PATCH", f"{path}/c/{part}", change, content_type=MERGE)
        assert patched.json["metadata"]["annotations"] == {"patched": "true"}
        assert "labels" not in patched.json["metadata"]


async def test_finalizing_a_namespace_may_change_its_labels() -> None:
    async with running_apiserver() as server:
        made = (await server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})).json
        made["metadata"]["labels"]["a"] = "b"
        answer = await server.request("PUT", "/api/v1/namespaces/n/finalize", made)
        assert answer.json["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}
        assert answer.json["spec"]["finalizers"] == ["kubernetes"]


async def test_one_autoscaler_in_two_versions() -> None:
    async with running_apiserver() as server:
        base = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
        wish = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec}
        assert (await server.request("POST", base.format("v1"), wish)).status == 201
        newer = (await server.request("GET", base.format("v2") + "/h")).json
        assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
        newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 70
        assert (await server.request("PUT", base.format("v2") + "/h", newer)).status == 200
        older = (await server.request("GET", base.format("v1") + "/h")).json
        assert older["spec"]["targetCPUUtilizationPercentage"] == 70


async def test_endpoints_say_that_they_are_deprecated() -> None:
    async with running_apiserver() as server:
        answer = await server.request("GET", "/api/v1/namespaces/default/endpoints")
        assert "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice" in answer.headers["Warning"]
