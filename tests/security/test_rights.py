"""Nobody comes by rights they were not given: through roles, impersonation, nodes, endpoints, external addresses."""

from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.config import Admission
from tests.security.granting import GROUP, MERGE, RBAC, TOKEN, account, binding, grant, pod
from tests.support.apiserver import TestServer, running_apiserver

WRITE_BINDINGS = {"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create", "patch"]}
WRITE_ROLES = {"apiGroups": [GROUP], "resources": ["clusterroles", "roles"], "verbs": ["create", "update", "patch"]}


@pytest.mark.parametrize("role", ["cluster-admin", "admin", "edit", "view", "system:node"])
async def test_who_may_bind_cannot_bind_what_they_lack(server: TestServer, role: str) -> None:
    """The roles for people have no rules of their own: what they gather must count."""
    await grant(server, WRITE_BINDINGS)
    answer = await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", binding("up", role), token=TOKEN)
    assert answer.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in answer.json["message"]


async def test_who_may_write_roles_cannot_widen_theirs(server: TestServer) -> None:
    await grant(server, WRITE_ROLES)
    more = {"rules": [WRITE_ROLES, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    path = f"{RBAC}/clusterroles/granted"
    assert (await server.request("PATCH", path, more, content_type=MERGE, token=TOKEN)).status == 403
    gather: dict[str, Any] = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}}
    assert (await server.request("PATCH", path, gather, content_type=MERGE, token=TOKEN)).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "admin"},
        {"Impersonate-User": "nobody-special", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "system:serviceaccount:kube-system:default"},
        {"Impersonate-User": "nobody-special", "Impersonate-Uid": "1"},
        {"Impersonate-User": "nobody-special", "Impersonate-Extra-Scopes": "all"},
    ],
)
async def test_nobody_speaks_for_others_without_leave(server: TestServer, headers: dict[str, str]) -> None:
    itself = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["nobody-special"], "verbs": ["impersonate"]}
    await grant(server, itself)
    answer = await server.request("GET", "/api/v1/namespaces/default/secrets", headers=headers, token=TOKEN)
    assert answer.status == 403
    assert "cannot impersonate" in answer.json["message"]


async def test_who_edits_leads_no_traffic_elsewhere(server: TestServer) -> None:
    """CVE-2021-25740."""
    await grant(server, role="edit")
    meta = {"name": "e"}
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": []}
    assert (await server.request("POST", "/api/v1/namespaces/default/endpoints", endpoints, token=TOKEN)).status == 403
    slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4"}
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert (await server.request("POST", path, {**slice_, "endpoints": []}, token=TOKEN)).status == 403


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0"])
async def test_slices_name_no_address_of_the_reader_s_own(server: TestServer, address: str) -> None:
    """CVE-2021-25737."""
    made = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "e"}, "addressType": "IPv4"}
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    answer = await server.request("POST", path, {**made, "endpoints": [{"addresses": [address]}]})
    assert answer.status == 422


async def test_external_addresses_can_be_denied(tmp_path: Path) -> None:
    """CVE-2020-8554."""
    async with running_apiserver(admission=Admission(("DenyServiceExternalIPs",))) as server:
        spec = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
        made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
        answer = await server.request("POST", "/api/v1/namespaces/default/services", made)
        assert (answer.status, answer.json["message"]) == (
            403,
            'services "s" is forbidden: Use of external IPs is denied by admission control',
        )
        await grant(server, role="edit")
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
        path = "/api/v1/namespaces/default/services/kubernetes/status"
        assert (await server.request("PATCH", path, status, content_type=MERGE, token=TOKEN)).status == 403


async def test_a_node_reads_only_the_secrets_of_its_pods(server: TestServer) -> None:
    await account(server)
    for name, node in (("mine", "node-1"), ("other", "node-2")):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        await server.request("POST", "/api/v1/namespaces/default/secrets", secret)
        volumes = [{"name": "v", "secret": {"secretName": name}}]
        made = await server.request("POST", "/api/v1/namespaces/default/pods", pod(name, nodeName=node, volumes=volumes))
        assert made.status == 201, made.body
        await server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    secrets = "/api/v1/namespaces/default/secrets"
    statuses = [(await server.request("GET", f"{secrets}/{name}", token="node-token")).status for name in ("mine", "other")]
    assert statuses == [200, 403]
    assert (await server.request("GET", secrets, token="node-token")).status == 403
    for method, path in (("DELETE", "/api/v1/nodes/node-2"), ("DELETE", "/api/v1/namespaces/default/pods/other")):
        assert (await server.request(method, path, token="node-token")).status == 403
    patches: list[dict[str, Any]] = [
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}},
    ]
    for patch in patches:
        for node in ("node-1", "node-2"):
            answer = await server.request("PATCH", f"/api/v1/nodes/{node}", patch, content_type=MERGE, token="node-token")
            assert answer.status == 403, answer.body


async def test_default_roles_come_back_at_start(tmp_path: Path) -> None:
    """Who could once weaken a default role has not weakened it for good."""
    path = f"{RBAC}/clusterroles/system:aggregate-to-view"
    async with running_apiserver("sqlite", tmp_path) as server:
        before = (await server.request("GET", path)).json["rules"]
        await server.request("PATCH", path, {"rules": [], "metadata": {"labels": None}}, content_type=MERGE)
        off = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
        await server.request("PATCH", f"{RBAC}/clusterroles/system:discovery", off, content_type=MERGE)
    async with running_apiserver("sqlite", tmp_path) as server:
        held: Any = (await server.request("GET", path)).json
        assert held["rules"] == before
        assert held["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
        assert not (await server.request("GET", f"{RBAC}/clusterroles/system:discovery")).json.get("rules")
