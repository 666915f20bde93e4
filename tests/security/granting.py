"""Rights for the test's poor user (``viewer-token``), given by an administrator."""

import asyncio
from typing import Any

from tests.support.apiserver import TestServer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
USER, TOKEN = "nobody-special", "viewer-token"
MERGE = "application/merge-patch+json"


def binding(name: str, role: str, user: str = USER, kind: str = "RoleBinding") -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


async def grant(server: TestServer, *rules: dict[str, Any], role: str = "") -> None:
    """Everywhere, either ``rules`` or an existing ``role``; returns once the authorizer knows."""
    name = role or "granted"
    if rules:
        made = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
        assert (await server.request("POST", f"{RBAC}/clusterroles", made)).status == 201
    answer = await server.request("POST", f"{RBAC}/clusterrolebindings", binding(f"b-{name}", name, kind="ClusterRoleBinding"))
    assert answer.status == 201, answer.body
    for _ in range(200):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        found = (await server.request("POST", path, review, token=TOKEN)).json["status"]["resourceRules"]
        if len(found) > 1:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the authorizer does not learn of new bindings")


def pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


async def account(server: TestServer, namespace: str = "default", **more: Any) -> None:
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", **more.pop("metadata", {})}, **more}
    assert (await server.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", made)).status == 201
