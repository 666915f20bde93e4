"""The attacks of this folder succeed where the defence is taken away: so it is the defence that the other tests see."""

from typing import Any

import pytest

from controlplane.apiserver.admission.plugins.role_escalation import RoleEscalation
from controlplane.apiserver.authorization.node import NodeAuthorizer
from controlplane.apiserver.config import Admission
from tests.security.granting import GROUP, MERGE, RBAC, TOKEN, account, binding, grant, pod
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.csr import request_for

PODS = "/api/v1/namespaces/default/pods"


async def node_relabels_itself(server: TestServer) -> int:
    await server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    patch = {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}
    return (await server.request("PATCH", "/api/v1/nodes/node-1", patch, content_type=MERGE, token="node-token")).status


async def pod_takes_the_node_s_network(server: TestServer) -> int:
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await server.request("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
    await account(server)
    return (await server.request("POST", PODS, pod("p", hostNetwork=True))).status


async def pod_takes_another_s_secret(server: TestServer) -> int:
    await account(server, metadata={"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}})
    volumes = [{"name": "v", "secret": {"secretName": "s"}}]
    return (await server.request("POST", PODS, pod("p", volumes=volumes))).status


async def requester_becomes_administrator(server: TestServer) -> int:
    await grant(server, {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]})
    made: dict[str, Any] = {**request_for("system:masters"), "apiVersion": "certificates.k8s.io/v1"}
    made |= {"kind": "CertificateSigningRequest", "metadata": {"name": "r"}}
    made["spec"]["usages"] = ["client auth"]
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    return (await server.request("POST", path, made, token=TOKEN)).status


@pytest.mark.parametrize(
    ("plugin", "attack"),
    [
        ("NodeRestriction", node_relabels_itself),
        ("PodSecurity", pod_takes_the_node_s_network),
        ("ServiceAccount", pod_takes_another_s_secret),
        ("CertificateSubjectRestriction", requester_becomes_administrator),
    ],
)
async def test_without_its_plugin_an_attack_succeeds(plugin: str, attack: Any) -> None:
    async with running_apiserver() as server:
        assert await attack(server) == 403
    async with running_apiserver(admission=Admission(disabled=(plugin,))) as server:
        assert await attack(server) in (200, 201)


async def test_without_the_escalation_check_a_binder_becomes_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoleEscalation, "handles", lambda self, attributes: False)
    async with running_apiserver() as server:
        await grant(server, {"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create"]})
        made = binding("up", "cluster-admin")
        assert (await server.request("POST", f"{RBAC}/namespaces/default/rolebindings", made, token=TOKEN)).status == 201


async def test_without_the_graph_a_node_reads_every_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    async def uses(*_: Any) -> bool:
        return True

    monkeypatch.setattr(NodeAuthorizer, "_uses", uses)
    async with running_apiserver() as server:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        await server.request("POST", "/api/v1/namespaces/default/secrets", secret)
        assert (await server.request("GET", "/api/v1/namespaces/default/secrets/s", token="node-token")).status == 200
