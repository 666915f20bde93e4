"""Admission that asks others: ImagePolicyWebhook a server, ClusterTrustBundleAttest the authorizers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from component.features import from_flag
from component.x509 import new_ca
from controlplane.apiserver.config import Admission
from tests.security.granting import TOKEN, account, grant, pod
from tests.support.apiserver import running_apiserver

BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"


@pytest.fixture
async def reviewer(tmp_path: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a server that lets in what comes from one registry."""

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        good = all(each["image"].startswith("good/") for each in review["spec"]["containers"])
        return web.json_response({**review, "status": {"allowed": good, "reason": "" if good else "only good ones"}})

    app = web.Application()
    app.router.add_post("/review", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/review"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": ""}}],
        "current-context": "x",
    }
    path = tmp_path / "reviewer.kubeconfig"
    path.write_text(json.dumps(config))
    yield path
    await runner.cleanup()


async def test_another_server_decides_about_images(tmp_path: Path, reviewer: Path) -> None:
    file = tmp_path / "admission.json"
    plugin = {"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": {"kubeConfigFile": str(reviewer)}}}
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**kind, "plugins": [plugin]}))
    async with running_apiserver(admission=Admission(enabled=("ImagePolicyWebhook",), file=file)) as server:
        await account(server)
        pods = "/api/v1/namespaces/default/pods"
        good = pod("a", containers=[{"name": "c", "image": "good/web"}])
        bad = pod("b", containers=[{"name": "c", "image": "bad/web"}])
        assert (await server.request("POST", pods, good)).status == 201
        refused = await server.request("POST", pods, bad)
        assert refused.status == 403
        assert "image policy webhook backend denied one or more images: only good ones" in refused.json["message"]


async def test_who_speaks_for_a_signer_must_be_allowed_to() -> None:
    features = from_flag({"ClusterTrustBundle": "true"})
    async with running_apiserver(runtime_config={"certificates.k8s.io/v1beta1": "true"}, features=features) as server:
        writes: dict[str, Any] = {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["create"]}
        attests = {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "resourceNames": ["example.com/mine"],
            "verbs": ["attest"],
        }
        await grant(server, writes, attests)

        async def make(name: str, signer: str) -> tuple[int, str]:
            spec = {"trustBundle": new_ca("a").certificate.decode(), **({"signerName": signer} if signer else {})}
            meta = {"name": name}
            made = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": meta, "spec": spec}
            answer = await server.request("POST", BUNDLES, made, token=TOKEN)
            return answer.status, str(answer.json.get("message", ""))

        assert (await make("mine", ""))[0] == 201
        assert (await make("example.com:mine:a", "example.com/mine"))[0] == 201
        status, message = await make("example.com:other:a", "example.com/other")
        assert status == 403
        assert 'user not permitted to attest for signerName "example.com/other"' in message


async def test_namespaces_are_made_when_they_are_missed() -> None:
    async with running_apiserver(admission=Admission(enabled=("NamespaceAutoProvision",))) as server:
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        path = "/api/v1/namespaces/brand-new/configmaps"
        assert (await server.request("POST", f"{path}?dryRun=All", made)).status == 404
        assert (await server.request("POST", path, made)).status == 201
        assert (await server.request("GET", "/api/v1/namespaces/brand-new")).json["spec"]["finalizers"] == ["kubernetes"]
        assert (await server.request("POST", "/api/v1/namespaces/NOT_A_NAME/configmaps", made)).status in (400, 404, 422)
