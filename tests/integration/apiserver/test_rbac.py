"""Roles and bindings take effect at once, and nobody grants more than they have."""

import asyncio
from typing import Any

import pytest

from tests.support.apiserver import TestServer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "rbac.authorization.k8s.io"


def binding(name: str, role: str, user: str = "nobody-special", kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


async def allowed(server: TestServer, method: str, path: str, token: str = "viewer-token") -> bool:
    """Watches of the authorizer arrive within a turn of the loop; give them a few."""
    for _ in range(20):
        if (await server.request(method, path, token=token)).status != 403:
            return True
        await asyncio.sleep(0.005)
    return False


async def test_a_binding_opens_one_namespace(server: TestServer) -> None:
    assert (await server.request("GET", MAPS, token="viewer-token")).status == 403
    await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "view"))
    assert await allowed(server, "GET", MAPS)
    assert (await server.request("GET", "/api/v1/namespaces/kube-system/configmaps", token="viewer-token")).status == 403
    assert (await server.request("DELETE", f"{MAPS}/x", token="viewer-token")).status == 403
    assert (await server.request("GET", "/api/v1/namespaces/default/secrets", token="viewer-token")).status == 403
    await server.request("DELETE", f"{RBAC}/namespaces/default/rolebindings/b")
    for _ in range(20):
        if (await server.request("GET", MAPS, token="viewer-token")).status == 403:
            return
        await asyncio.sleep(0.005)
    pytest.fail("a deleted binding still grants")


async def test_aggregated_roles_hold_the_rules_of_those_they_select(server: TestServer) -> None:
    await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "edit"))
    assert await allowed(server, "DELETE", f"{MAPS}/x")
    assert await allowed(server, "GET", MAPS)


async def test_nobody_grants_more_than_they_have(server: TestServer) -> None:
    await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "admin"))
    roles = f"{RBAC}/namespaces/default/roles"
    assert await allowed(server, "GET", roles)

    def role(*verbs: str, group: str = "", resource: str = "configmaps") -> dict[str, Any]:
        rules = [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}]
        return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}

    refused = await server.request("POST", roles, role("*", resource="*"), token="viewer-token")
    assert refused.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused.json["message"]
    assert (await server.request("POST", roles, role("get", "list"), token="viewer-token")).status == 201
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    too_much = binding("c", "cluster-admin", "friend")
    assert (await server.request("POST", bindings, too_much, token="viewer-token")).status == 403
    assert (await server.request("POST", bindings, binding("d", "r", "friend", "Role"), token="viewer-token")).status == 201


async def test_rules_can_be_listed(server: TestServer) -> None:
    await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "view"))
    assert await allowed(server, "GET", MAPS)
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await server.request("POST", path, body, token="viewer-token")).json["status"]
    assert any("configmaps" in rule["resources"] and "list" in rule["verbs"] for rule in status["resourceRules"])
    assert any("/healthz" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])


async def test_a_kubelet_reads_only_the_secrets_of_its_pods(server: TestServer) -> None:
    for name in ("used", "unused"):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        await server.request("POST", "/api/v1/namespaces/default/secrets", secret)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    spec = {
        "nodeName": "node-1",
        "containers": [{"name": "c", "image": "i:1"}],
        "volumes": [{"name": "v", "secret": {"secretName": "used"}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert (await server.request("POST", "/api/v1/namespaces/default/pods", pod)).status == 201
    path = "/api/v1/namespaces/default/secrets"
    assert (await server.request("GET", f"{path}/used", token="node-token")).status == 200
    refused = await server.request("GET", f"{path}/unused", token="node-token")
    assert refused.status == 403
    assert "no relationship found between node" in refused.json["message"]
    assert (await server.request("GET", path, token="node-token")).status == 403
    assert (
        await server.request("GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", token="node-token")
    ).status == 404


async def test_who_may_change_may_not_therefore_create(server: TestServer) -> None:
    """Server-side apply and PUT make what does not exist: that takes the verb create."""
    rules = [
        {"verbs": ["get", "patch", "update"], "apiGroups": [""], "resources": ["configmaps"]},
        {"verbs": ["get", "patch", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
    ]
    body = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": "changer"}, "rules": rules}
    await server.request("POST", f"{RBAC}/clusterroles", body)
    await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "changer"))
    assert await allowed(server, "GET", f"{MAPS}/x")
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    applied = "application/apply-patch+yaml"
    for path, api_version, kind in ((MAPS, "v1", "ConfigMap"), (leases, "coordination.k8s.io/v1", "Lease")):
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
        attempts = [("PATCH", "?fieldManager=m", applied)] + ([("PUT", "", "application/json")] if kind == "Lease" else [])
        for method, query, content_type in attempts:
            for dry in ("", "&dryRun=All" if query else "?dryRun=All"):
                answer = await server.request(
                    method, f"{path}/x{query}{dry}", obj, content_type=content_type, token="viewer-token"
                )
                assert (answer.status, "cannot create resource" in answer.json["message"]) == (403, True)
            assert (await server.request("GET", f"{path}/x")).status == 404
        assert (await server.request("PATCH", f"{path}/x?fieldManager=a", obj, content_type=applied)).status == 201
        changed = {**obj, "metadata": {"name": "x", "labels": {"a": "b"}}}
        answer = await server.request("PATCH", f"{path}/x?fieldManager=m", changed, content_type=applied, token="viewer-token")
        assert answer.status == 200
