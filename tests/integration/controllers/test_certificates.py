"""From a request to a certificate that opens the door: approval by access review, the four signers, refusals with a reason."""

import base64
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from apimachinery.gvk import GroupVersionResource
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from client.rest import Client
from controlplane.controllers.lib.certificate_requests import CLIENT_SIGNER, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import control_plane, eventually
from tests.support.csr import Object, signing_request

BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
CLIENT_USAGES = ("digital signature", "key encipherment", "client auth")
SERVING_USAGES = ("digital signature", "server auth")


def signing(server: TestServer) -> list[str]:
    return [f"--cluster-signing-cert-file={server.ca_file}", f"--cluster-signing-key-file={server.directory / 'ca.key'}"]


async def bind(client: Client, role: str, kind: str, subject: str) -> None:
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-{role.rpartition(':')[2]}"},
        "roleRef": {"apiGroup": BINDINGS.group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": BINDINGS.group, "kind": kind, "name": subject}],
    }
    await client.create(BINDINGS, binding)


async def issued(client: Client, name: str) -> bytes:
    found = await client.get(REQUESTS, name)
    return base64.b64decode((found.get("status") or {}).get("certificate") or "")


async def whoami(server: TestServer, certificate: bytes, key: bytes) -> Any:
    files = server.directory / "issued.crt", server.directory / "issued.key"
    for path, data in zip(files, (certificate, key), strict=True):
        path.write_bytes(data)
    return await _ask(server, *files)


async def _ask(server: TestServer, certificate: Path, key: Path) -> Any:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(certificate, key)
    url = f"{server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with aiohttp.ClientSession() as session, session.post(url, json=body, ssl=context) as answer:
        return (await answer.json())["status"]["userInfo"]


async def test_a_node_joins_and_renews_by_itself() -> None:
    async with running_apiserver() as server, control_plane(server, signing(server), schedule=False) as client:
        role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
        await bind(client, "system:node-bootstrapper", "User", "nobody-special")
        request, key = signing_request(
            "system:node:new", ["system:nodes"], signer=KUBELET_CLIENT_SIGNER, usages=CLIENT_USAGES, seconds=3600
        )
        made = await server.request("POST", REQUESTS.path(), request, token="viewer-token")
        assert made.status == 201, made.body
        assert not await issued(client, "r")  # nobody allows it yet
        await bind(client, role, "User", "nobody-special")  # and the controller comes back to it
        certificate = await eventually(lambda: issued(client, "r"))
        found = await client.get(REQUESTS, "r")
        assert [(each["type"], each["reason"]) for each in found["status"]["conditions"]] == [("Approved", "AutoApproved")]
        about = await whoami(server, certificate, key)
        assert (about["username"], "system:nodes" in about["groups"]) == ("system:node:new", True)


async def test_serving_certificates_need_somebody_who_approves() -> None:
    async with running_apiserver() as server, control_plane(server, signing(server), schedule=False) as client:
        request, _ = signing_request(
            "system:node:node-1", ["system:nodes"], signer=KUBELET_SERVING_SIGNER, usages=SERVING_USAGES, dns=["node-1"]
        )
        assert (await server.request("POST", REQUESTS.path(), request, token="node-token")).status == 201
        other, _ = signing_request("jane", ["team"], signer=CLIENT_SIGNER, usages=["client auth"], name="other")
        await client.create(REQUESTS, other)
        await approve(client, "other")
        await eventually(lambda: issued(client, "other"))
        assert not (await client.get(REQUESTS, "r")).get("status")
        await approve(client, "r")
        assert b"BEGIN CERTIFICATE" in await eventually(lambda: issued(client, "r"))


async def test_what_no_signer_signs_fails_with_the_reason() -> None:
    async with running_apiserver() as server, control_plane(server, signing(server), schedule=False) as client:
        request, _ = signing_request("jane", signer=CLIENT_SIGNER, usages=["client auth", "server auth"])
        await client.create(REQUESTS, request)
        await approve(client, "r")

        async def failed() -> Object | None:
            conditions = (await client.get(REQUESTS, "r"))["status"]["conditions"]
            return next((each for each in conditions if each["type"] == "Failed"), None)

        why = await eventually(failed)
        assert (why["reason"], why["message"]) == (
            "SignerValidationFailure",
            "invalid usage for client certificate: server auth",
        )
        assert not await issued(client, "r")


async def test_stock_kubectl_approves() -> None:
    async with running_apiserver() as server, control_plane(server, signing(server), schedule=False) as client:
        request, _ = signing_request("jane", signer=CLIENT_SIGNER, usages=["client auth"])
        await client.create(REQUESTS, request)
        code, out, err = await server.kubectl("certificate", "approve", "r")
        assert (code, out.split()[-1]) == (0, "approved"), err
        await eventually(lambda: issued(client, "r"))


async def approve(client: Client, name: str) -> None:
    found = await client.get(REQUESTS, name)
    found["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "by hand"}]}
    await client.update(REQUESTS, found, subresource="approval")
