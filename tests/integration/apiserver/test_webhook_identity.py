"""Another server says who a token is and what they may."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.apiserver import prepare, running_apiserver

PODS = "/api/v1/namespaces/default/pods"


class Reviewer:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.broken = False

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review)
        if self.broken:
            return web.Response(status=400)
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"Scopes": ["x"]}}
            status: dict[str, Any] = {"authenticated": True, "user": user} if spec["token"] == "jane-token" else {}
        else:
            attributes = spec.get("resourceAttributes") or {}
            status = {"allowed": attributes.get("resource") == "pods", "denied": attributes.get("resource") == "secrets"}
        return web.json_response({**review, "status": status})


@pytest.fixture
async def reviewer(tmp_path: Path) -> AsyncIterator[Reviewer]:
    made = Reviewer()
    app = web.Application()
    app.router.add_post("/review", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}/review"}}
    context = {"name": "x", "context": {"cluster": "c", "user": ""}}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "x"}
    (tmp_path / "hook.json").write_text(json.dumps(kubeconfig))
    yield made
    await runner.cleanup()


async def test_another_server_decides(tmp_path: Path, reviewer: Reviewer) -> None:
    config, _ = prepare(tmp_path, "memory")
    hook = tmp_path / "hook.json"
    modes = ("Node", "RBAC", "Webhook")
    identity = replace(config.identity, token_webhook=hook, access_webhook=hook, authorization_modes=modes)
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        for _ in range(3):
            assert (await server.request("GET", PODS, token="jane-token")).status == 200
        assert [each["kind"] for each in reviewer.asked] == ["TokenReview", "SubjectAccessReview"]
        spec = reviewer.asked[1]["spec"]
        assert (spec["user"], spec["uid"], spec["groups"]) == ("jane", "7", ["dev", "system:authenticated"])
        assert spec["extra"] == {"scopes": ["x"]}
        assert spec["resourceAttributes"] == {"namespace": "default", "verb": "list", "version": "v1", "resource": "pods"}
        assert (await server.request("GET", "/api/v1/namespaces/default/secrets", token="jane-token")).status == 403
        assert (await server.request("GET", PODS, token="other-token")).status == 401
        reviewer.broken = True
        assert (await server.request("GET", PODS, token="third-token")).status == 401
        assert (await server.request("GET", "/api/v1/nodes", token="jane-token")).status == 403
        assert (await server.request("GET", PODS, token="jane-token")).status == 200  # remembered


async def test_a_server_of_the_older_versions_is_asked_in_its_own_words(tmp_path: Path, reviewer: Reviewer) -> None:
    config, _ = prepare(tmp_path, "memory")
    hook = tmp_path / "hook.json"
    versions = ("v1beta1", "v1beta1")
    identity = replace(config.identity, token_webhook=hook, access_webhook=hook, authorization_modes=("Webhook",))
    identity = replace(identity, webhook_versions=versions)
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        assert (await server.request("GET", PODS, token="jane-token")).status == 200
    asked = {each["kind"]: each for each in reviewer.asked if each["spec"].get("user", "jane") == "jane"}
    assert asked["TokenReview"]["apiVersion"] == "authentication.k8s.io/v1beta1"
    review = asked["SubjectAccessReview"]
    assert review["apiVersion"] == "authorization.k8s.io/v1beta1"
    assert review["spec"]["group"] == ["dev", "system:authenticated"]
    assert "groups" not in review["spec"]
