"""A node joins by a bootstrap token: request, approval and signature by the real controllers, rotation, and kills between."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS, NODES, SECRETS
from bootstrap import tokens
from cli import token as token_verb
from client import kubeconfig
from client.rest import Client
from component import x509
from component.clock import RealClock
from component.metrics import Registry
from node.kubelet.certificate import bootstrap, request
from node.kubelet.certificate.bootstrap import Files, is_still_valid
from node.kubelet.certificate.manager import Certificates
from node.kubelet.certificate.request import SERVING_SIGNER, CertificateRequestError, Wanted
from node.kubelet.certificate.store import CertificateStore
from node.kubelet.config import KubeletConfig
from tests.support.apiserver import TestServer, prepare, running_apiserver
from tests.support.control_plane import control_plane, eventually

NODE = "node-7"
BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")


@dataclass
class Cluster:
    server: TestServer
    admin: Client
    files: Files

    async def requests(self) -> list[dict]:  # type: ignore[type-arg]
        return list((await self.admin.list(CERTIFICATE_SIGNING_REQUESTS))["items"])

    async def join(self) -> None:
        async with asyncio.timeout(40):
            await bootstrap.bootstrap(self.files, NODE, RealClock())

    async def whoami(self) -> str:
        async with Client(kubeconfig.load(self.files.kubeconfig), component="test") as client:
            review = GroupVersionResource("authentication.k8s.io", "v1", "selfsubjectreviews")
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            return str((await client.create(review, body))["status"]["userInfo"]["username"])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    config, _ = prepare(tmp_path, "memory")
    identity = replace(config.identity, bootstrap_tokens=True)
    flags = [f"--cluster-signing-cert-file={tmp_path / 'ca.crt'}", f"--cluster-signing-key-file={tmp_path / 'ca.key'}"]
    async with (
        running_apiserver(directory=tmp_path, identity=identity) as server,
        control_plane(
            server,
            flags,
            schedule=False,
            controllers="certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller,"
            "serviceaccount-controller,token-cleaner-controller",
        ) as admin,
    ):
        made = tokens.Token(*tokens.parse(tokens.generate()), groups=(tokens.DEFAULT_GROUP,))
        await token_verb._create(admin, made)
        path = tmp_path / "bootstrap.kubeconfig"
        path.write_text(token_verb._bootstrap_kubeconfig(server.kubeconfig, str(made)))
        yield Cluster(server, admin, Files(tmp_path / "kubelet.kubeconfig", path, tmp_path / "pki"))


async def test_a_token_becomes_a_certificate(cluster: Cluster) -> None:
    assert not is_still_valid(cluster.files.kubeconfig, datetime.now(UTC))
    await cluster.join()
    assert await cluster.whoami() == f"system:node:{NODE}"
    current = cluster.files.certificates / "kubelet-client-current.pem"
    assert current.is_symlink()
    document = yaml.safe_load(cluster.files.kubeconfig.read_bytes())
    assert document["users"][0]["user"] == {"client-certificate": str(current), "client-key": str(current)}
    assert not list(cluster.files.certificates.glob("*.tmp"))
    assert is_still_valid(cluster.files.kubeconfig, datetime.now(UTC))
    (made,) = await cluster.requests()
    assert made["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert made["spec"]["username"].startswith("system:bootstrap:")


async def test_a_kill_before_the_answer_asks_no_second_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is on disk before the request, and the request is named by the key."""

    class Killed(BaseException):
        pass

    def dies(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(request, "issued", dies)
        with pytest.raises(Killed):
            await cluster.join()
    (before,) = await cluster.requests()
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap.CertificateStore, "update", dies)
        with pytest.raises(Killed):
            await cluster.join()
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "write_kubeconfig", dies)
        with pytest.raises(Killed):
            await cluster.join()
    await cluster.join()
    (after,) = await cluster.requests()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await cluster.whoami() == f"system:node:{NODE}"


async def test_a_denied_request_is_followed_by_one_for_another_key(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    denied: list[str] = []
    real = request.issued

    def denies_once(made: dict) -> bytes | None:  # type: ignore[type-arg]
        if not denied:
            denied.append(made["metadata"]["name"])
            raise CertificateRequestError("is denied")
        return real(made)

    monkeypatch.setattr(request, "issued", denies_once)
    await cluster.join()
    names = {made["metadata"]["name"] for made in await cluster.requests()}
    assert len(names) == 2
    assert denied[0] in names


async def test_an_expired_certificate_is_replaced_by_joining_again(cluster: Cluster) -> None:
    ca = x509.KeyPair.load(cluster.server.directory / "ca.crt", cluster.server.directory / "ca.key")
    wanted = x509.Request(f"system:node:{NODE}", ("system:nodes",), usages=(x509.CLIENT,), lifetime=timedelta(days=1))
    old = x509.issue(ca, wanted, now=datetime.now(UTC) - timedelta(days=2))
    store = CertificateStore(cluster.files.certificates, "kubelet-client")
    store.update(old, datetime.now(UTC) - timedelta(days=2))
    bootstrap.write_kubeconfig(cluster.files.kubeconfig, kubeconfig.load(cluster.files.bootstrap), store.path)
    assert not is_still_valid(cluster.files.kubeconfig, datetime.now(UTC))
    with pytest.raises(StatusError, match="Unauthorized"):
        await cluster.whoami()
    await cluster.join()
    assert await cluster.whoami() == f"system:node:{NODE}"


@contextlib.asynccontextmanager
async def certificates(cluster: Cluster, **changes: object) -> AsyncIterator[Certificates]:
    config = replace(KubeletConfig(), node_name=NODE, node_ip="192.0.2.7", cert_dir=cluster.files.certificates, **changes)  # type: ignore[arg-type]
    made = Certificates(config, RealClock(), cluster.files.bootstrap)
    credentials = await asyncio.to_thread(made.credentials, kubeconfig.load(cluster.files.kubeconfig))
    async with Client(credentials, component="kubelet") as client:
        made.start(client, Registry(process=False))
        yield made


async def test_a_client_certificate_renews_itself_by_itself(cluster: Cluster) -> None:
    await cluster.join()
    store = CertificateStore(cluster.files.certificates, "kubelet-client")
    first = store.current()
    assert first is not None
    async with certificates(cluster, rotate_certificates=True) as kept:
        rotation = kept.rotations["client"]
        assert await rotation.step() is not None
        assert store.current() == first, "it is young"
        rotation._due = (x509.parse(first.certificate).fingerprint, datetime.now(UTC))
        assert await rotation.step() is not None
    second = store.current()
    assert second is not None
    assert second.key != first.key
    assert await cluster.whoami() == f"system:node:{NODE}"
    renewal = next(made for made in await cluster.requests() if made["metadata"]["name"].startswith("csr-"))
    assert renewal["spec"]["username"] == f"system:node:{NODE}", "by the certificate, not by the token"


async def test_a_certificate_that_expired_while_it_ran_is_asked_for_by_the_token(cluster: Cluster) -> None:
    await test_an_expired_certificate_is_replaced_by_joining_again(cluster)
    ca = x509.KeyPair.load(cluster.server.directory / "ca.crt", cluster.server.directory / "ca.key")
    wanted = x509.Request(f"system:node:{NODE}", ("system:nodes",), usages=(x509.CLIENT,), lifetime=timedelta(days=1))
    store = CertificateStore(cluster.files.certificates, "kubelet-client")
    store.update(x509.issue(ca, wanted, now=datetime.now(UTC) - timedelta(days=2)), datetime.now(UTC))
    async with certificates(cluster, rotate_certificates=True) as kept:
        async with asyncio.timeout(40):
            assert await kept.rotations["client"].step() is not None
    assert await cluster.whoami() == f"system:node:{NODE}"


async def serving_requests(cluster: Cluster) -> list[dict]:  # type: ignore[type-arg]
    return [made for made in await cluster.requests() if made["spec"]["signerName"] == SERVING_SIGNER]


async def test_a_serving_certificate_waits_for_somebody_to_approve_it(cluster: Cluster) -> None:
    """Upstream's rule: nobody but an administrator can know that a node may serve under an address."""
    await cluster.join()
    async with certificates(cluster, server_tls_bootstrap=True) as kept:
        rotation = kept.rotations["server"]
        stepping = asyncio.ensure_future(rotation.step())
        serving = asyncio.ensure_future(kept.serving_files())
        async with asyncio.timeout(40):
            waiting = await eventually(lambda: serving_requests(cluster), within=30)
            await asyncio.sleep(0.5)
            assert not serving.done()
            name = waiting[0]["metadata"]["name"]
            code, _, error = await cluster.server.kubectl("certificate", "approve", name)
            assert code == 0, error
            assert await stepping is not None
            certificate, key = await serving
    assert certificate == key == cluster.files.certificates / "kubelet-server-current.pem"
    found = x509.parse(certificate.read_bytes())
    assert (found.dns_names, found.ip_addresses, found.usages) == ((NODE,), ("192.0.2.7",), ("server",))
    assert Wanted(SERVING_SIGNER, NODE).subject.common_name == found.common_name


async def test_a_node_with_a_static_kubeconfig_rotates_too(cluster: Cluster) -> None:
    """Its inline certificate is the first one of the store."""
    certificate, key = cluster.server.client_certificate(f"system:node:{NODE}", "system:nodes")
    document = kubeconfig.build(
        cluster.server.url, ca=cluster.server.ca_file.read_bytes(), certificate=certificate.read_bytes(), key=key.read_bytes()
    )
    kubeconfig.save(document, cluster.files.kubeconfig)
    async with certificates(cluster, rotate_certificates=True) as kept:
        store = CertificateStore(cluster.files.certificates, "kubelet-client")
        first = store.current()
        assert first is not None
        assert first.certificate.strip() == certificate.read_bytes().strip()
        rotation = kept.rotations["client"]
        rotation._due = (x509.parse(first.certificate).fingerprint, datetime.now(UTC))
        await rotation.step()
        assert store.current() != first


async def test_tokens_are_listed_and_deleted(cluster: Cluster) -> None:
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    made = tokens.Token("abcdef", "0123456789abcdef", expires, ("authentication",), "mine", ("system:bootstrappers:x",))
    await token_verb._create(cluster.admin, made)
    assert made in await token_verb._list(cluster.admin)
    secret = await cluster.admin.get(SECRETS, "bootstrap-token-abcdef", "kube-system")
    assert base64.b64decode(secret["data"]["usage-bootstrap-authentication"]) == b"true"
    with pytest.raises(Exception, match='a token with id "abcdef" already exists'):
        await token_verb._create(cluster.admin, made)
    await token_verb._delete(cluster.admin, ["abcdef"])
    assert made not in await token_verb._list(cluster.admin)
    with pytest.raises(Exception, match='there is no bootstrap token "abcdef"'):
        await token_verb._delete(cluster.admin, ["abcdef"])
    assert {"kubeadm:kubelet-bootstrap"} <= {one["metadata"]["name"] for one in (await cluster.admin.list(BINDINGS))["items"]}
    assert not (await cluster.admin.list(NODES))["items"]


async def test_an_expired_token_is_removed_and_no_other(cluster: Cluster) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    for token_id, expires in (("aaaaaa", soon), ("bbbbbb", soon + timedelta(hours=1)), ("cccccc", None)):
        await token_verb._create(cluster.admin, tokens.Token(token_id, "0123456789abcdef", expires))

    async def left() -> set[str]:
        return {one.id for one in await token_verb._list(cluster.admin)} & {"aaaaaa", "bbbbbb", "cccccc"}

    assert await left() == {"aaaaaa", "bbbbbb", "cccccc"}

    async def gone() -> bool:
        return await left() == {"bbbbbb", "cccccc"}

    await eventually(gone, within=30)
