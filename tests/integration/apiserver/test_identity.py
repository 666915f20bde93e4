"""Who gets in, as whom, and what they may."""

import asyncio
import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from component import x509
from controlplane.apiserver.config import FrontProxy
from tests.support.apiserver import TestServer, prepare, running_apiserver

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_and_version_need_no_credentials(server: TestServer, path: str) -> None:
    assert (await server.request("GET", path, token=None)).status == 200


@pytest.mark.parametrize("path", ["/api", "/apis", "/metrics", "/openapi/v3", "/readyz/ping", MAPS])
async def test_nothing_else_is_served_to_strangers(server: TestServer, path: str) -> None:
    answer = await server.request("GET", path, token=None)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot' in answer.json["message"]


async def test_a_wrong_token_is_401_everywhere(server: TestServer) -> None:
    for path in (MAPS, "/readyz"):
        answer = await server.request("GET", path, token="wrong")
        assert (answer.status, answer.json["reason"], answer.json["message"]) == (401, "Unauthorized", "Unauthorized")


async def test_an_authenticated_user_may_discover_and_ask_about_itself(server: TestServer) -> None:
    assert (await server.request("GET", "/apis", token="viewer-token")).status == 200
    user = (await server.request("POST", REVIEWS, REVIEW, token="viewer-token")).json["status"]["userInfo"]
    assert user == {"username": "nobody-special", "uid": "2", "groups": ["system:authenticated"]}
    refused = await server.request("GET", MAPS, token="viewer-token")
    sentence = 'User "nobody-special" cannot list resource "configmaps" in API group "" in the namespace "default"'
    assert refused.json["message"] == f"configmaps is forbidden: {sentence}"


def with_certificate(server: TestServer, *names: str) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=str(server.ca_file))
    tls.load_cert_chain(*server.client_certificate(*names))
    return tls


async def whoami(server: TestServer, tls: ssl.SSLContext, token: str | None = None) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    async with server.session.post(server.url + REVIEWS, data=json.dumps(REVIEW), headers=headers, ssl=tls) as answer:
        return answer.status, await answer.json()


async def test_a_client_certificate_names_user_and_groups(server: TestServer) -> None:
    status, body = await whoami(server, with_certificate(server, "system:node:node-1", "system:nodes"))
    assert status == 201
    assert body["status"]["userInfo"]["username"] == "system:node:node-1"
    assert body["status"]["userInfo"]["groups"] == ["system:nodes", "system:authenticated"]


async def test_a_certificate_of_another_authority_is_401_not_a_dropped_connection(server: TestServer) -> None:
    stranger = x509.new_ca("kubernetes")
    pair = x509.issue(stranger, x509.Request("admin", ("system:masters",), usages=(x509.CLIENT,)))
    pair.save(server.directory / "bad.crt", server.directory / "bad.key")
    tls = ssl.create_default_context(cafile=str(server.ca_file))
    tls.load_cert_chain(server.directory / "bad.crt", server.directory / "bad.key")
    status, body = await whoami(server, tls)
    assert (status, body["reason"]) == (401, "Unauthorized")
    status, body = await whoami(server, tls, server.admin_token)  # a good token still counts
    assert (status, body["status"]["userInfo"]["username"]) == (201, "admin")


async def test_a_front_proxy_speaks_for_many_on_one_connection(tmp_path: Path) -> None:
    authority = x509.new_ca("front-proxy-ca")
    authority.save(tmp_path / "proxy-ca.crt", tmp_path / "proxy-ca.key")
    for name in ("front-proxy-client", "intruder"):
        issued = x509.issue(authority, x509.Request(name, usages=(x509.CLIENT,)))
        issued.save(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    config, _ = prepare(tmp_path, "memory")
    proxy = FrontProxy(tmp_path / "proxy-ca.crt", ("front-proxy-client",))
    async with running_apiserver(directory=tmp_path, identity=replace(config.identity, front_proxy=proxy)) as server:

        async def ask(client: str, **headers: str) -> tuple[int, str]:
            tls = contexts.setdefault(client, ssl.create_default_context(cafile=str(server.ca_file)))
            tls.load_cert_chain(tmp_path / f"{client}.crt", tmp_path / f"{client}.key")
            sent = {"Content-Type": "application/json", **headers}
            async with server.session.post(server.url + REVIEWS, data=json.dumps(REVIEW), headers=sent, ssl=tls) as answer:
                body = await answer.json()
                return answer.status, body.get("status", {}).get("userInfo", {}).get("username") if answer.status == 201 else ""

        contexts: dict[str, ssl.SSLContext] = {}
        assert await ask("front-proxy-client", **{"X-Remote-User": "alice"}) == (201, "alice")
        assert await ask("front-proxy-client", **{"X-Remote-User": "bob", "X-Remote-Group": "ops"}) == (201, "bob")
        assert await ask("front-proxy-client") == (401, "")
        assert await ask("intruder", **{"X-Remote-User": "alice"}) == (401, "")
        header = {"X-Remote-User": "alice", "X-Remote-Group": "system:masters"}
        stranger = await server.request("GET", MAPS, token="viewer-token", headers=header)
        assert stranger.status == 403, "without the proxy's certificate the headers say nothing"


async def test_a_server_certificate_is_no_client_certificate(server: TestServer) -> None:
    pair = x509.issue(server.ca, x509.Request("admin", ("system:masters",), usages=(x509.SERVER,)))
    pair.save(server.directory / "srv.crt", server.directory / "srv.key")
    tls = ssl.create_default_context(cafile=str(server.ca_file))
    tls.load_cert_chain(server.directory / "srv.crt", server.directory / "srv.key")
    assert (await whoami(server, tls))[0] == 401


async def account(server: TestServer, name: str = "robot") -> None:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", body)


async def token_for(server: TestServer, name: str = "robot", **spec: Any) -> Any:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return await server.request("POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", body)


async def test_a_service_account_token_works_until_the_account_goes(server: TestServer) -> None:
    await account(server)
    made = await token_for(server)
    assert made.status == 201
    token = made.json["status"]["token"]
    user = (await server.request("POST", REVIEWS, REVIEW, token=token)).json["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user["groups"]
    assert (await server.request("GET", MAPS, token=token)).status == 403
    await server.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot")
    await asyncio.sleep(0)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = (await server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)).json["status"]
    assert not status.get("authenticated")
    assert "no longer exist" in status["error"]


async def test_tokens_for_others_do_not_open_this_door(server: TestServer) -> None:
    await account(server)
    token = (await token_for(server, audiences=["somebody-else"])).json["status"]["token"]
    assert (await server.request("POST", REVIEWS, REVIEW, token=token)).status == 401
    spec = {"token": token, "audiences": ["somebody-else", "third"]}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    status = (await server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)).json["status"]
    assert (status["authenticated"], status["audiences"]) == (True, ["somebody-else"])


async def test_short_tokens_are_refused(server: TestServer) -> None:
    await account(server)
    answer = await token_for(server, expirationSeconds=10)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert "spec.expirationSeconds" in answer.json["message"]


async def test_a_node_writes_only_what_is_its_own(server: TestServer) -> None:
    nodes = "/api/v1/nodes"

    def node(name: str, **labels: str) -> Any:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}

    assert (await server.request("POST", nodes, node("node-1"), token="node-token")).status == 201
    other = await server.request("POST", nodes, node("node-2"), token="node-token")
    assert other.status == 403
    assert 'node "node-1" is not allowed to modify node "node-2"' in other.json["message"]
    patch = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
    path = f"{nodes}/node-1"
    labelled = await server.request("PATCH", path, patch, token="node-token", content_type="application/merge-patch+json")
    assert labelled.status == 403


MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"


async def own_node(server: TestServer) -> str:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    uid: str = (await server.request("POST", "/api/v1/nodes", body, token="node-token")).json["metadata"]["uid"]
    return uid


def mirror(uid: str, owner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid, "controller": True, **(owner or {})}
    annotations = {"kubernetes.io/config.mirror": "hash"}
    metadata = {"name": "m-node-1", "annotations": annotations, "ownerReferences": [reference]}
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (volume(secret={"secretName": "s"}), "secrets"),
        (volume(projected={"sources": [{"secret": {"name": "s"}}]}), "secrets"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        (container(envFrom=[{"secretRef": {"name": "s"}}]), "secrets"),
        (container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), "secrets"),
        (volume(configMap={"name": "c"}), "configmaps"),
        (container(envFrom=[{"configMapRef": {"name": "c"}}]), "configmaps"),
        (volume(persistentVolumeClaim={"claimName": "p"}), "persistentvolumeclaims"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]}, "resourceclaims"),
    ],
)
async def test_a_mirror_pod_opens_nothing_to_its_node(server: TestServer, spec: dict[str, Any], named: str) -> None:
    """Else a node could read any secret of the cluster: by making a pod of its own that uses it."""
    uid = await own_node(server)
    answer = await server.request("POST", PODS, mirror(uid, **spec), token="node-token")
    assert answer.status == 403
    assert answer.json["message"].endswith(f'node "node-1" can not create pods that reference {named}')


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        ({"uid": "another"}, "UID mismatch"),
        ({"controller": False}, "controller owner reference"),
        ({"blockOwnerDeletion": True}, "must not set blockOwnerDeletion"),
        ({"name": "node-2"}, "owner reference set to itself"),
        ({}, ""),
    ],
)
async def test_a_mirror_pod_belongs_to_its_node(server: TestServer, owner: dict[str, Any], text: str) -> None:
    uid = await own_node(server)
    answer = await server.request("POST", PODS, mirror(uid, owner), token="node-token")
    assert (answer.status, text in answer.json.get("message", "")) == (403 if text else 201, True)


async def test_a_node_cannot_have_itself_deleted_nor_its_pods_relabelled(server: TestServer) -> None:
    uid = await own_node(server)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
    patch = {"metadata": {"ownerReferences": [owner]}}
    for path in ("/api/v1/nodes/node-1", "/api/v1/nodes/node-1/status"):
        answer = await server.request("PATCH", path, patch, token="node-token", content_type=MERGE)
        held = (await server.request("GET", "/api/v1/nodes/node-1")).json["metadata"].get("ownerReferences")
        assert held is None
        assert answer.status == 403 or path.endswith("status")
    assert (await server.request("POST", PODS, mirror(uid), token="node-token")).status == 201
    status = f"{PODS}/m-node-1/status"
    patch = {"metadata": {"labels": {"app": "bank"}}, "status": {"phase": "Running"}}
    answer = await server.request("PATCH", status, patch, token="node-token", content_type=MERGE)
    assert (answer.status, "cannot update labels through pod status" in answer.json["message"]) == (403, True)
    del patch["metadata"]
    assert (await server.request("PATCH", status, patch, token="node-token", content_type=MERGE)).status == 200


async def test_access_reviews_answer_for_others(server: TestServer) -> None:
    spec = {
        "user": "system:kube-scheduler",
        "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "default"},
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert (await server.request("POST", path, body)).json["status"]["allowed"] is True
    spec["resourceAttributes"] = {"verb": "delete", "resource": "nodes"}
    assert (await server.request("POST", path, body)).json["status"]["allowed"] is False


async def test_impersonation_needs_leave(server: TestServer) -> None:
    as_viewer = {"Impersonate-User": "nobody-special", "Impersonate-Group": "developers"}
    user = (await server.request("POST", REVIEWS, REVIEW, headers=as_viewer)).json["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("nobody-special", ["developers", "system:authenticated"])
    refused = await server.request("POST", REVIEWS, REVIEW, token="viewer-token", headers={"Impersonate-User": "admin"})
    assert refused.status == 403
    assert 'cannot impersonate-on:user-info:create resource "selfsubjectreviews"' in refused.json["message"]


async def test_writes_are_audited_with_microseconds(server: TestServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    made = await server.request("POST", MAPS, body)
    event = await server.audited(made.headers["Audit-Id"])
    assert event["auditID"] == made.headers["Audit-Id"]
    assert (event["verb"], event["user"]["username"], event["responseStatus"]["code"]) == ("create", "admin", 201)
    meta = made.json["metadata"]
    assert event["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "a",
        "apiVersion": "v1",
        "uid": meta["uid"],
        "resourceVersion": meta["resourceVersion"],
    }
    assert len(event["requestReceivedTimestamp"]) == len("2026-11-30T11:16:38.000001Z")
    assert server.admin_token not in server.audit_log.read_text()


async def test_a_node_offers_devices_of_its_own_alone(server: TestServer) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    for name, expected in (("node-1", 201), ("node-2", 403)):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        body = {"metadata": {"name": name}, "spec": spec}
        answer = await server.request("POST", slices, body, token="node-token")
        assert answer.status == expected, answer.body
        if expected == 403:
            assert "can only create ResourceSlice with the same NodeName as the requesting node" in answer.json["message"]
            assert (await server.request("POST", slices, body)).status == 201
    for name, expected in (("node-1", 200), ("node-2", 403)):
        query = f"fieldSelector=spec.nodeName%3D{name}"
        assert (await server.request("GET", f"{slices}?{query}", token="node-token")).status == expected
        assert (await server.request("DELETE", f"{slices}?{query}", token="node-token")).status == expected
    assert [each["metadata"]["name"] for each in (await server.request("GET", slices)).json["items"]] == ["node-2"]


async def test_a_node_has_one_csi_node_and_only_lets_claims_grow(server: TestServer) -> None:
    nodes = "/apis/storage.k8s.io/v1/csinodes"
    for name, expected in (("node-1", 201), ("node-2", 403)):
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": []}}
        answer = await server.request("POST", nodes, body, token="node-token")
        assert answer.status == expected, answer.body
    assert "can only access CSINode with the same name as the requesting node" in answer.json["message"]
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    assert (await server.request("POST", claims, claim)).status == 201
    status = f"{claims}/c/status"
    grown = {"status": {"capacity": {"storage": "2Gi"}}}
    answer = await server.request("PATCH", status, grown, token="node-token", content_type=MERGE)
    assert answer.status == 403  # no pod of its uses it
    await account(server, "default")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pod = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1", "volumes": volumes}
    pod["serviceAccountName"] = "default"
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}
    assert (await server.request("POST", "/api/v1/namespaces/default/pods", made)).status == 201
    assert (await server.request("PATCH", status, grown, token="node-token", content_type=MERGE)).status == 200
    bound = {"status": {"phase": "Bound"}}
    answer = await server.request("PATCH", status, bound, token="node-token", content_type=MERGE)
    assert answer.status == 403
    assert "is not allowed to update fields other than status.quantity and status.conditions" in answer.json["message"]


async def test_how_long_tokens_last(tmp_path: Path) -> None:
    """A token in a pod for this API outlasts what was asked for; no other does, and none lasts longer than is allowed."""
    for longest, extends in ((0, True), (7200, False)):
        config, _ = prepare(tmp_path, "memory")
        identity = replace(config.identity, longest_token=longest, extend_tokens=extends)
        async with running_apiserver(directory=tmp_path, identity=identity) as server:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await server.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            assert (await server.request("POST", "/api/v1/namespaces/default/pods", pod)).status == 201

            async def asked(seconds: int, server: TestServer = server, **more: Any) -> tuple[int, int, str]:
                spec = {"expirationSeconds": seconds, "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}, **more}
                kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
                path = "/api/v1/namespaces/default/serviceaccounts/default/token"
                answer = await server.request("POST", path, {**kind, "spec": spec})
                claims = jwt.decode(answer.json["status"]["token"], options={"verify_signature": False})
                warn_after = claims["kubernetes.io"].get("warnafter", claims["iat"]) - claims["iat"]
                return claims["exp"] - claims["iat"], warn_after, answer.headers.get("Warning", "")

            assert await asked(3607) == ((365 * 24 * 3600, 3607, "") if extends else (3607, 0, ""))
            assert await asked(3607, audiences=["vault"]) == (3607, 0, "")
            assert await asked(3607, boundObjectRef=None) == (3607, 0, "")
            shortened = '299 - "requested expiration of 9000 seconds shortened to 7200 seconds"'
            assert await asked(9000) == ((7200, 0, shortened) if longest else (9000, 0, ""))
