"""The attacks of this folder succeed where the defence is taken away: so it is the defence that the other tests see."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from component import x509
from component.client_certificates import Authorities
from controlplane.apiserver.admission.plugins.role_escalation import RoleEscalation
from controlplane.apiserver.authorization.node import NodeAuthorizer
from controlplane.apiserver.config import Admission, Storage
from controlplane.apiserver.storage.encryption.aes import Gcm
from controlplane.apiserver.storage.encryption.interface import TransformError
from tests.security.granting import GROUP, MERGE, RBAC, TOKEN, account, binding, grant, pod
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.csr import request_for
from tests.support.encryption import IDENTITY, cipher, write

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


async def test_without_encryption_the_database_shows_a_secret(tmp_path: Path) -> None:
    encryption = write(tmp_path / "encryption.json", cipher("aesgcm", "one"), IDENTITY)
    for config, shown in ((None, True), (encryption, False)):
        folder = tmp_path / str(shown)
        folder.mkdir()
        storage = Storage("sqlite", folder / "store.db", "NORMAL", config)
        async with running_apiserver("sqlite", folder, storage=storage) as server:
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "seen-by-a-thief"}}
            await server.request("POST", "/api/v1/namespaces/default/secrets", secret)
        assert any(b"c2Vlbi1ieS1hLXRoaWVm" in path.read_bytes() for path in folder.glob("store.db*")) is shown


async def test_without_the_judge_a_foreign_certificate_is_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The handshake lets any certificate through, so everything hangs on who judges it afterwards."""
    other = x509.new_ca("kubernetes")
    pair = x509.issue(other, x509.Request("kubernetes-admin", ("system:masters",), usages=(x509.CLIENT,)))
    pair.save(tmp_path / "f.crt", tmp_path / "f.key")
    for judged in (True, False):
        with monkeypatch.context() as patch:
            if not judged:
                patch.setattr(Authorities, "verify", lambda self, certificate, now, others=(): None)
            async with running_apiserver() as server:
                context = ssl.create_default_context(cafile=str(server.ca_file))
                context.load_cert_chain(tmp_path / "f.crt", tmp_path / "f.key")
                async with server.session.get(f"{server.url}/api/v1/secrets", ssl=context) as answer:
                    assert answer.status == (401 if judged else 200)


async def test_without_the_bound_key_a_secret_can_be_moved_into_another_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can write to the store gives somebody else's Secret to a namespace of their own, and reads it there."""
    theirs, mine = b"/registry/secrets/theirs/s", b"/registry/secrets/mine/s"
    stored = await Gcm(b"k" * 32).to_storage(b"value", theirs)
    with pytest.raises(TransformError):
        await Gcm(b"k" * 32).from_storage(stored, mine)
    with monkeypatch.context() as patch:
        real = Gcm.open
        patch.setattr(Gcm, "open", lambda self, data, key: real(self, data, theirs))
        assert (await Gcm(b"k" * 32).from_storage(stored, mine))[0] == b"value"
