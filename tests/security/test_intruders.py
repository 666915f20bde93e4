"""Attacks of our own invention on the three gates: names that look alike, two answers to one question, one right used as another.

The people in it have little: ``viewer-token`` only what a test grants, ``node-token`` is a kubelet's.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import jwt
import pytest
from cryptography import x509 as certificates
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apimachinery.codecs import protobuf
from component import client_certificates
from controlplane.apiserver.authentication import service_account
from controlplane.apiserver.authentication.bootstrap_token import BootstrapTokens
from controlplane.apiserver.authentication.interface import Credentials
from controlplane.controllers.lib import certificate_requests
from controlplane.controllers.lib.certificate_authority import CertificateAuthority
from tests.security.granting import GROUP, MERGE, RBAC, TOKEN, account, binding, grant, pod
from tests.support.apiserver import ADMIN_TOKEN, TestServer

DEFAULT = "/api/v1/namespaces/default"
SECRETS, PODS = f"{DEFAULT}/secrets", f"{DEFAULT}/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHO_AM_I = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
CSR = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PROTOBUF, APPLY = "application/vnd.kubernetes.protobuf", "application/apply-patch+yaml"


def rule(resource: str, *verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


def token_request(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def secret(server: TestServer, name: str) -> None:
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"canary": f"canary-of-{name}"}}
    assert (await server.request("POST", SECRETS, made)).status == 201


async def sent(server: TestServer, text: str) -> bytes:
    """All that comes back for bytes that no honest client would send."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname="127.0.0.1")
    writer.write(text.encode())
    back = b""
    try:
        async with asyncio.timeout(2):
            while (piece := await reader.read(1 << 16)) and b"\r\n\r\n" not in back:
                back += piece
    except (TimeoutError, ConnectionError, ssl.SSLError):
        pass
    writer.close()
    return back


async def test_one_name_leads_to_no_other(server: TestServer) -> None:
    """A right to one Secret by name, and every way to spell a question about another."""
    for name in ("allowed", "other"):
        await secret(server, name)
    await grant(server, rule("secrets", "get", "list", "watch", "delete", "deletecollection", resourceNames=["allowed"]))
    assert (await server.request("GET", f"{SECRETS}/%61llowed", token=TOKEN)).status == 200
    stolen = base64.b64encode(b"canary-of-other")
    selector = "fieldSelector=metadata.name%3D"
    for path in (
        f"{SECRETS}/other",
        f"{SECRETS}/allowed%2f..%2fother",
        f"{SECRETS}/allowed/../other",
        f"{SECRETS}/allowed%00/../other",
        f"{SECRETS}/ALLOWED",
        f"{SECRETS}/allowed/status",
        SECRETS,
        f"{SECRETS}/",
        "//api/v1/namespaces/default/secrets/other",
        f"{SECRETS}?{selector}other",
        f"{SECRETS}?{selector}allowed,metadata.name%3Dother",
        f"{SECRETS}?{selector}other,metadata.name%3Dallowed",
        f"{SECRETS}?fieldSelector=metadata.name!%3Dallowed",
        f"{SECRETS}?fieldSelector=&{selector}allowed",
        f"{SECRETS}?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=",
        "/api/v1/watch/namespaces/default/secrets?timeoutSeconds=1",
        "/api/v1/watch/namespaces/default/secrets/other?timeoutSeconds=1&resourceVersion=0",
        "/api/v1/secrets?" + selector + "other",
    ):
        answer = await server.request("GET", path, token=TOKEN)
        assert answer.status in (400, 403, 404), path
        assert stolen not in answer.body, path
    for twice in (
        f"{selector}allowed&{selector}other",
        f"{selector}allowed&fieldSelector=",
    ):  # one counts, for both gates
        answer = await server.request("GET", f"{SECRETS}?{twice}", token=TOKEN)
        assert stolen not in answer.body
        assert (await server.request("DELETE", f"{SECRETS}?{twice}", token=TOKEN)).status == 403
    for method in ("HEAD", "OPTIONS", "TRACE", "PROPFIND"):
        assert (await server.request(method, f"{SECRETS}/other", token=TOKEN)).status in (403, 405)
    disguised = {"X-HTTP-Method-Override": "GET", "X-Original-URL": f"{SECRETS}/allowed", "X-Forwarded-Prefix": SECRETS}
    assert (await server.request("GET", f"{SECRETS}/other", token=TOKEN, headers=disguised)).status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/healthz/../api/v1/secrets",
        "/healthz/..%2f..%2fapi/v1/secrets",
        "/livez/../metrics",
        "/readyz/%2e%2e/api/v1/secrets",
        "//api/v1/secrets",
        "/API/v1/secrets",
        "/api/v1/secrets;/healthz",
        "/api/v1/secrets?x=/healthz",
        "/api/v1/%c0%ae%c0%ae/secrets",
        "/api/v1/proxy/namespaces/default/services/kubernetes",
    ],
)
async def test_what_is_open_opens_nothing_else(server: TestServer, path: str) -> None:
    await secret(server, "s")
    answer = await server.request("GET", path, token=None)
    assert answer.status in (400, 401, 403, 404)
    assert b"Y2FuYXJ5" not in answer.body


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 0\r\nContent-Length: 5",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Content-Length: -5",
        "Content-Length: +5",
        "Authorization : Bearer " + ADMIN_TOKEN,
        "Authorization: Bearer x\r\n " + ADMIN_TOKEN,
        "Authorization: Bearer " + ADMIN_TOKEN + "\0",
        "Authorization: Bearer wrong\r\nAuthorization: Bearer " + ADMIN_TOKEN,
        "Cookie: Authorization=Bearer " + ADMIN_TOKEN,
        "Authorization: Basic " + base64.b64encode(f"admin:{ADMIN_TOKEN}".encode()).decode(),
    ],
)
async def test_no_request_hides_in_another(server: TestServer, head: str) -> None:
    """What two readers of HTTP would take for different things is taken for nothing."""
    hidden = f"GET {SECRETS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    back = await sent(server, f"POST {SECRETS} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n0\r\n\r\n{hidden}")
    first = back.split(b"\r\n", 1)[0]
    assert first.split(b" ")[1] in (b"400", b"401", b"403"), back
    assert b'"items"' not in back
    assert b" 201 " not in back


@pytest.mark.parametrize("name", ["admin\u200b", "ádmin", "ADMIN", "admin ", "\u0430dmin", "system:masters"])
async def test_names_that_look_alike_are_others(server: TestServer, name: str) -> None:
    """Names and groups are compared as they are: nothing is folded, trimmed or normalised."""
    groups = ("system:masters\u200b", "System:Masters", " system:masters", "system:masters\n", "system\uff1amasters")
    certificate, key = server.client_certificate(name, *groups)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(certificate, key)
    async with server.session.post(f"{server.url}{WHO}", json=WHO_AM_I, ssl=context) as answer:
        info = (await answer.json())["status"]["userInfo"]
    assert info["username"] == name
    assert "system:masters" not in info["groups"]
    async with server.session.get(f"{server.url}/api/v1/secrets", ssl=context) as answer:
        assert answer.status == 403


async def test_a_token_in_a_subprotocol_needs_a_websocket(server: TestServer) -> None:
    """Browsers send subprotocols with upgrades alone; elsewhere the header could be somebody's page speaking."""
    encoded = base64.urlsafe_b64encode(ADMIN_TOKEN.encode()).decode().rstrip("=")
    bearer = f"base64url.bearer.authorization.k8s.io.{encoded}"
    header = {"Sec-WebSocket-Protocol": f"v4.channel.k8s.io, {bearer}"}
    assert (await server.request("GET", SECRETS, token=None, headers=header)).status in (401, 403)
    watch = f"{server.url}{SECRETS}/none".replace("https", "wss")
    for offered, status in (
        ((bearer,), 401),  # the server would have to answer with the token
        (("v4.channel.k8s.io", bearer, bearer), 401),
        (("v4.channel.k8s.io", "base64url.bearer.authorization.k8s.io.###"), 401),
        (("v4.channel.k8s.io", bearer), 404),  # known, and there is no such Secret
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await server.session.ws_connect(watch, protocols=offered, ssl=server.tls)
        assert caught.value.status == status, offered


async def test_a_token_serves_whom_it_was_made_for(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audience, signature, account: a token is nothing beyond any of them, and nobody reviews it into more."""
    await account(server)
    tokens = f"{DEFAULT}/serviceaccounts/default/token"
    vault = (await server.request("POST", tokens, token_request(audiences=["vault"]))).json["status"]["token"]
    good = (await server.request("POST", tokens, token_request())).json["status"]["token"]
    assert (await server.request("POST", WHO, WHO_AM_I, token=good)).status == 201
    assert (await server.request("POST", WHO, WHO_AM_I, token=vault)).status == 401
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    for token, audiences, known in (
        (vault, ["vault"], True),
        (vault, [], False),
        (vault, ["x"], False),
        (good, ["vault"], False),
    ):
        review = {**WHO_AM_I, "kind": "TokenReview", "spec": {"token": token, "audiences": audiences}}
        status = (await server.request("POST", reviews, review)).json["status"]
        assert bool(status.get("authenticated")) is known
    await server.request("POST", PODS, {**pod("held"), "metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    bound = token_request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "held"})
    of_pod = (await server.request("POST", tokens, bound)).json["status"]["token"]
    assert await server.fresh(of_pod, WHO, WHO_AM_I) == 201
    await server.request("DELETE", f"{PODS}/held?gracePeriodSeconds=0")
    monkeypatch.setattr(service_account, "LEEWAY_SECONDS", -5.0)  # a minute later: a finalizer does not keep the token alive
    assert await server.fresh(of_pod, WHO, WHO_AM_I) == 401
    monkeypatch.undo()
    head, body, signature = good.split(".")
    key_id = jwt.get_unverified_header(good)["kid"]
    key = serialization.load_pem_private_key((server.directory / "sa.key").read_bytes(), None)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def encoded(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = jwt.decode(good, options={"verify_signature": False})
    masters = encoded({**claims, "sub": "system:serviceaccount:kube-system:default", "groups": ["system:masters"]})
    confused = f"{encoded({'alg': 'HS256', 'kid': key_id})}.{body}"
    signed = base64.urlsafe_b64encode(hmac.digest(public, confused.encode(), hashlib.sha256)).rstrip(b"=").decode()
    for forged in (
        f"{encoded({'alg': 'none', 'kid': key_id})}.{body}.",
        f"{encoded({'alg': 'NONE', 'kid': key_id})}.{masters}.",
        f"{confused}.{signed}",
        f"{head}.{masters}.{signature}",
        f"{encoded({'alg': 'ES256', 'kid': key_id, 'jku': 'https://127.0.0.1:1/', 'crit': ['x'], 'x': 1})}.{body}.{signature}",
        f"{encoded({'alg': 'ES256', 'kid': '../../etc/passwd'})}.{body}.{signature}",
        f"{head}.{body}.{signature}.{signature}",
        f" {good}x",
    ):
        assert (await server.request("POST", WHO, WHO_AM_I, token=forged)).status == 401, forged
    await server.request("DELETE", f"{DEFAULT}/serviceaccounts/default")
    await account(server)  # of the same name, and another
    assert await server.fresh(good, WHO, WHO_AM_I) == 401


async def test_one_kind_does_not_pass_for_another(server: TestServer) -> None:
    """What the URL says was asked about at the gate; what the body says must be the same."""
    await grant(
        server, rule("configmaps", "create", "update", "patch"), rule("deployments/scale", "update", "patch", group="apps")
    )
    hostile = {
        "kind": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "z"}},
        "group": {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": "z"}},
        "namespace": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z", "namespace": "kube-system"}},
    }
    for what, body in hostile.items():
        for content_type, data in (("application/json", json.dumps(body)), (PROTOBUF, protobuf.encode(body))):
            answer = await server.request("POST", f"{DEFAULT}/configmaps", data, content_type=content_type, token=TOKEN)
            assert answer.status == 400, (what, content_type)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await server.request("PUT", f"{DEFAULT}/configmaps/b", made, token=TOKEN)).status in (400, 404)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    await server.request("POST", path, deployment)
    more = {"spec": {"replicas": 2, "template": {"spec": {"serviceAccountName": "admin"}}}, "metadata": {"labels": {"x": "y"}}}
    bodies: tuple[tuple[str, Any], ...] = (("PUT", deployment), ("PATCH", more))
    for method, body in bodies:
        content_type = MERGE if method == "PATCH" else "application/json"
        await server.request(method, f"{path}/d/scale", body, content_type=content_type, token=TOKEN)
    held = (await server.request("GET", f"{path}/d")).json
    assert "serviceAccountName" not in held["spec"]["template"]["spec"]
    assert "labels" not in held["metadata"]


async def test_to_change_is_not_to_create(server: TestServer) -> None:
    await grant(server, rule("configmaps", "update", "patch"), rule("leases", "update", "patch", group="coordination.k8s.io"))
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    applied = f"{DEFAULT}/configmaps/new?fieldManager=me&force=true"
    answer = await server.request("PATCH", applied, made, content_type=APPLY, token=TOKEN)
    assert (answer.status, "cannot create resource" in answer.json["message"]) == (403, True)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new"
    assert (await server.request("PUT", path, lease, token=TOKEN)).status in (403, 404)


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {f"{GROUP}/aggregate-to-view": "true"}}},
        {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}},
    ],
    ids=["gathered", "kept"],
)
async def test_a_role_of_others_is_not_given_away_by_its_labels(server: TestServer, patch: dict[str, Any]) -> None:
    """A label gathers a role into ``view``; an annotation keeps a default role from being mended: both grant what is in it."""
    await grant(server, rule("clusterroles", "get", "patch", "update", group=GROUP))
    path = f"{RBAC}/clusterroles/system:controller:generic-garbage-collector"
    answer = await server.request("PATCH", path, patch, content_type=MERGE, token=TOKEN)
    assert answer.status == 403
    assert 'user "nobody-special" (groups=["system:authenticated"]) is attempting to grant' in answer.json["message"]
    assert '{APIGroups:["" "events.k8s.io"], Resources:["events"], Verbs:["create" "patch" "update"]}' in answer.json["message"]
    collected = {"metadata": {"finalizers": ["example.com/wait"]}}  # the garbage collector's business alone
    assert (await server.request("PATCH", path, collected, content_type=MERGE, token=TOKEN)).status == 200


async def test_a_binding_of_others_is_not_renewed(server: TestServer) -> None:
    await grant(server, rule("clusterrolebindings", "get", "patch", "update", group=GROUP))
    await server.request("POST", f"{RBAC}/clusterrolebindings", binding("strong", "cluster-admin", "x", "ClusterRoleBinding"))
    path = f"{RBAC}/clusterrolebindings/strong"
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"subjects": [{"apiGroup": GROUP, "kind": "User", "name": "me"}]}):
        assert (await server.request("PATCH", path, patch, content_type=MERGE, token=TOKEN)).status == 403


async def test_nobody_waits_for_a_role_that_is_still_to_come(server: TestServer) -> None:
    """A binding to a role that does not exist gives nothing today; tomorrow somebody makes a role of that name."""
    await grant(server, rule("rolebindings", "create", group=GROUP), rule("clusterrolebindings", "create", group=GROUP))
    for path, kind in (
        (f"{RBAC}/namespaces/default/rolebindings", "RoleBinding"),
        (f"{RBAC}/clusterrolebindings", "ClusterRoleBinding"),
    ):
        answer = await server.request("POST", path, binding("early", "next-operator", kind=kind), token=TOKEN)
        assert (answer.status, answer.json["message"]) == (404, f'clusterroles.{GROUP} "next-operator" not found')
        assert (await server.request("POST", path, binding("early", "next-operator", kind=kind))).status == 201  # by who may bind


async def test_leave_to_be_one_is_not_leave_to_be_all(server: TestServer) -> None:
    """Impersonation of one user and one group, and every way to smuggle in a stronger one."""
    await grant(
        server,
        rule("users", "impersonate", resourceNames=["jane"]),
        rule("groups", "impersonate", resourceNames=["dev"]),
        rule("serviceaccounts", "impersonate"),
    )
    jane, masters = ("Impersonate-User", "jane"), "system:masters"
    machine = "system:serviceaccount:kube-system:default"
    for status, *headers in (
        (201, jane),
        (201, jane, ("Impersonate-Group", "dev")),
        (403, jane, ("Impersonate-Group", "dev"), ("Impersonate-Group", masters)),
        (403, jane, ("impersonate-group", "dev"), ("IMPERSONATE-GROUP", masters)),
        (403, jane, ("Impersonate-Group", f"dev,{masters}")),
        (403, jane, ("Impersonate-Group", "")),
        (403, jane, ("Impersonate-Uid", "1")),
        (403, jane, ("Impersonate-Extra-Scopes", "all")),
        (403, jane, ("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", "node-1")),
        (403, ("Impersonate-User", "admin"), jane),
        (400, ("Impersonate-User", ""), ("Impersonate-Group", "dev")),
        (400, ("Impersonate-Group", "dev")),
        (201, ("Impersonate-User", machine)),
        (403, ("Impersonate-User", machine), ("Impersonate-Group", masters)),
        (403, ("Impersonate-User", f"{machine}:x")),
        (403, ("Impersonate-User", "system:serviceaccount::default")),
    ):
        sent_along = [("Authorization", f"Bearer {TOKEN}"), *headers]
        async with server.session.post(f"{server.url}{WHO}", json=WHO_AM_I, headers=sent_along, ssl=server.tls) as answer:
            assert answer.status == status, headers
            if status == 201:
                assert masters not in (await answer.json())["status"]["userInfo"]["groups"]


async def test_who_asks_for_a_certificate_does_not_approve_it(server: TestServer) -> None:
    group = "certificates.k8s.io"
    mine = ("certificatesigningrequests", "certificatesigningrequests/status", "certificatesigningrequests/approval")
    await grant(server, *(rule(each, "create", "get", "update", "patch", group=group) for each in mine))
    key = ec.generate_private_key(ec.SECP256R1())

    def asked(name: str, *groups: str) -> dict[str, Any]:
        parts = [certificates.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
        subject = certificates.Name([*parts, certificates.NameAttribute(NameOID.COMMON_NAME, "x")])
        signed = certificates.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        request = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
        spec = {"signerName": "kubernetes.io/kube-apiserver-client", "request": request, "usages": ["client auth"]}
        forged = {"username": "admin", "groups": ["system:masters"], "uid": "1", "extra": {"a": ["b"]}}
        status = {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "YQ=="}
        made = {"apiVersion": f"{group}/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
        return {**made, "spec": {**spec, **forged}, "status": status}

    assert (await server.request("POST", CSR, asked("m", "system:masters"), token=TOKEN)).status == 403
    made = (await server.request("POST", CSR, asked("x"), token=TOKEN)).json
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("nobody-special", ["system:authenticated"])
    assert "extra" not in made["spec"]
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}}
    signed = {"status": {"certificate": "YQ=="}}
    other = {"spec": {"username": "admin", "signerName": "kubernetes.io/kubelet-serving"}}
    for path, patch in (("", approved), ("/status", approved), ("/approval", approved), ("/status", signed), ("", other)):
        await server.request("PATCH", f"{CSR}/x{path}", patch, content_type=MERGE, token=TOKEN)
    held = (await server.request("GET", f"{CSR}/x")).json
    assert not held["status"]
    assert held["spec"] == made["spec"]


@pytest.mark.parametrize("names", [("system:kube-scheduler", "system:node:node-1"), ("system:node:node-2", "system:node:node-1")])
async def test_a_certificate_with_two_names_is_for_the_one_that_was_approved(server: TestServer, names: tuple[str, ...]) -> None:
    """A node asks to renew its certificate, with another name before its own: who approves and who lets in read the same."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [certificates.NameAttribute(NameOID.COMMON_NAME, name) for name in names]
    subject = certificates.Name([certificates.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"), *parts])
    asked = certificates.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = asked.public_bytes(serialization.Encoding.PEM)
    read = certificate_requests.subject_of({"spec": {"request": base64.b64encode(request).decode()}})
    signer = CertificateAuthority(server.directory / "ca.crt", server.directory / "ca.key")
    signed = signer.sign(request, ["digital signature", "client auth"], timedelta(hours=1), datetime.now(UTC))
    assert client_certificates.subject(certificates.load_pem_x509_certificate(signed))[0] == read.common_name == names[-1]
    with pytest.raises(certificate_requests.UnacceptableError, match="more than one common name"):
        certificate_requests.check_kubelet_client(read, ["digital signature", "client auth"])
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate, file = server.directory / "two.crt", server.directory / "two.key"
    certificate.write_bytes(signed)
    file.write_bytes(private)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(certificate, file)
    async with server.session.post(f"{server.url}{WHO}", json=WHO_AM_I, ssl=context) as answer:
        assert (await answer.json())["status"]["userInfo"]["username"] == names[-1]


async def test_a_pod_is_not_changed_through_its_side_doors(server: TestServer) -> None:
    """Rights to pods and their status put in no container, move no pod and change no account."""
    await account(server)
    await grant(server, rule("pods", "create", "get", "update", "patch"), rule("pods/status", "update", "patch"))
    await server.request("POST", PODS, pod("p"), token=TOKEN)
    before = (await server.request("GET", f"{PODS}/p")).json["spec"]
    for patch in (
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}},
        {"spec": {"nodeName": "elsewhere"}},
        {"spec": {"serviceAccountName": "admin"}},
        {"spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}},
        {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}]}},
    ):
        for door in ("", "/status", "/ephemeralcontainers", "/resize", "/binding"):
            await server.request("PATCH", f"{PODS}/p{door}", patch, content_type=MERGE, token=TOKEN)
    assert (await server.request("GET", f"{PODS}/p")).json["spec"] == before


async def test_a_node_has_tokens_made_for_its_pods_alone(server: TestServer) -> None:
    """For pods bound to it, accounts they use, and audiences that their volumes name."""
    await account(server)
    projected = [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}]
    await server.request("POST", PODS, pod("mine", nodeName="node-1", volumes=projected))
    await server.request("POST", PODS, pod("theirs", nodeName="node-2"))
    uids = {name: (await server.request("GET", f"{PODS}/{name}")).json["metadata"]["uid"] for name in ("mine", "theirs")}
    path = f"{DEFAULT}/serviceaccounts/default/token"

    async def asked(name: str, *audiences: str, uid: str = "") -> tuple[int, str]:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid or uids[name]}
        spec = {"boundObjectRef": bound, "audiences": list(audiences)}
        answer = await server.request("POST", path, token_request(**spec), token="node-token")
        return answer.status, answer.json.get("message", "")

    assert (await asked("mine"))[0] == 201
    assert (await asked("mine", "vault"))[0] == 201
    who = "system:node:node-1 is not authorized to request tokens for this audience"
    assert await asked("mine", "bank") == (
        403,
        f'serviceaccounts "default" is forbidden: audience "bank" not found in pod spec volume, {who}',
    )
    assert (await asked("mine", "vault", "bank"))[1].endswith("node may only request 0 or 1 audiences")
    assert (await asked("theirs"))[0] == 403
    assert (await asked("mine", uid=uids["theirs"]))[0] in (403, 409)
    for reference in ({}, {"kind": "Node", "apiVersion": "v1", "name": "node-1"}, {"kind": "Secret", "name": "s"}):
        request = token_request(**({"boundObjectRef": reference} if reference else {}))
        assert (await server.request("POST", path, request, token="node-token")).status == 403
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    assert (await server.request("POST", "/api/v1/nodes", node, token="node-token")).status == 201
    source = {"spec": {"configSource": {"configMap": {"name": "x", "namespace": "y", "kubeletConfigKey": "z"}}}}
    answer = await server.request("PATCH", "/api/v1/nodes/node-1", source, content_type=MERGE, token="node-token")
    assert answer.status in (403, 422)


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "spec.nodeName!%3Dnode-2",
        "spec.nodeName%3Dnode-2",
        "metadata.name%3Dtheirs",
        "status.phase%3DPending",
    ],
)
async def test_a_node_lists_no_pods_but_its_own(server: TestServer, selector: str) -> None:
    await account(server)
    await server.request("POST", PODS, pod("theirs", nodeName="node-2"))
    for verb in ("", "&watch=1&timeoutSeconds=1&resourceVersion=0"):
        for field in (f"fieldSelector={selector}", f"fieldSelector={selector}&fieldSelector=spec.nodeName%3Dnode-1"):
            answer = await server.request("GET", f"/api/v1/pods?{field}{verb}", token="node-token")
            assert answer.status in (400, 403)
    both = "fieldSelector=spec.nodeName%3Dnode-1&fieldSelector=spec.nodeName%3Dnode-2"
    answer = await server.request("GET", f"/api/v1/pods?{both}", token="node-token")
    assert b"theirs" not in answer.body


async def test_a_node_tells_of_no_claims_of_its_pods(server: TestServer) -> None:
    """CVE-2025-4563: a claim that a pod's status names is one that its node may read."""
    await account(server)
    await server.request("POST", PODS, pod("mine", nodeName="node-1"))
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "theirs"}, "spec": {"devices": {}}}
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    assert (await server.request("POST", claims, claim)).status == 201
    told: tuple[dict[str, Any], ...] = (
        {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "theirs"}]},
        {"extendedResourceClaimStatus": {"resourceClaimName": "theirs", "requestMappings": []}},
    )
    for status in told:
        patch = {"status": {"phase": "Running", **status}}
        answer = await server.request("PATCH", f"{PODS}/mine/status", patch, content_type=MERGE, token="node-token")
        assert answer.status in (403, 422), answer.body
        assert (await server.request("GET", f"{claims}/theirs", token="node-token")).status == 403
    running = {"status": {"phase": "Running"}}
    answer = await server.request("PATCH", f"{PODS}/mine/status", running, content_type=MERGE, token="node-token")
    assert answer.status == 200


async def test_a_claim_on_anothers_volume_shows_no_node_its_secrets(server: TestServer) -> None:
    """Anybody may name a volume in a claim; it is theirs when the volume says so too."""
    await account(server)
    await secret(server, "of-the-volume")
    csi = {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "of-the-volume", "namespace": "default"}}
    held = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": held}
    volume["spec"] = {**held, "claimRef": {"namespace": "other", "name": "rightful"}}
    assert (await server.request("POST", "/api/v1/persistentvolumes", volume)).status == 201
    resources = {"requests": {"storage": "1Gi"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "volumeName": "v"}
    assert (await server.request("POST", f"{DEFAULT}/persistentvolumeclaims", {**claim, "spec": spec})).status == 201
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert (await server.request("POST", PODS, pod("p", nodeName="node-1", volumes=mounted))).status == 201
    for path in (f"{SECRETS}/of-the-volume", "/api/v1/persistentvolumes/v"):
        assert (await server.request("GET", path, token="node-token")).status == 403
    bound = {"spec": {"claimRef": {"namespace": "default", "name": "c"}}}
    assert (await server.request("PATCH", "/api/v1/persistentvolumes/v", bound, content_type=MERGE)).status == 200
    for path in (f"{SECRETS}/of-the-volume", "/api/v1/persistentvolumes/v"):
        assert (await server.request("GET", path, token="node-token")).status == 200


@pytest.mark.parametrize(
    ("groups", "known"),
    [
        ("", True),
        ("system:bootstrappers:workers", True),
        ("system:masters", False),
        ("system:bootstrappers:x,system:masters", False),
        ("system:bootstrappers:x\nsystem:masters", False),
        ("system:bootstrappers", False),
    ],
)
async def test_a_bootstrap_token_joins_and_no_more(groups: str, known: bool) -> None:
    """Whoever may write Secrets of kube-system makes no administrators by them."""
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": groups,
    }
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    stored = {"type": "bootstrap.kubernetes.io/token", "metadata": {"name": "bootstrap-token-abcdef"}, "data": encoded}

    async def lookup(resource: str, namespace: str, name: str) -> Any:
        return stored

    user = await BootstrapTokens(lookup).authenticate(Credentials(bearer_token="abcdef.0123456789abcdef"))
    assert (user is not None) is known
    assert user is None or all(group.startswith("system:bootstrappers") for group in user.groups)
