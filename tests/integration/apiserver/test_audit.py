"""An audit policy decides what is written of which request, and a webhook gets it too."""

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from controlplane.apiserver.config import Audit
from tests.support.apiserver import running_apiserver

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitManagedFields": True,
    "rules": [
        {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "RequestResponse", "verbs": ["create"], "namespaces": ["default"], "omitStages": ["RequestReceived"]},
        {"level": "Metadata", "verbs": ["list", "watch"], "resources": [{"group": "", "resources": ["configmaps"]}]},
    ],
}


def typed(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


async def collector(received: list[dict[str, Any]]) -> tuple[web.AppRunner, int]:
    async def take(request: web.Request) -> web.Response:
        received.extend((await request.json())["items"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/events", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    return runner, site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]


async def test_a_policy_decides(tmp_path: Path) -> None:
    received: list[dict[str, Any]] = []
    runner, port = await collector(received)
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY))
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}/events"}}
    context = {"name": "x", "context": {"cluster": "c", "user": ""}}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "current-context": "x"}
    (tmp_path / "webhook.json").write_text(json.dumps(kubeconfig))
    audit = Audit(tmp_path / "audit.log", policy=tmp_path / "policy.yaml", webhook=tmp_path / "webhook.json", webhook_wait=0.05)
    maps, secrets = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
    async with running_apiserver(audit=audit) as server:
        await server.request("POST", maps, typed("ConfigMap", "a", data={"k": "v"}))
        await server.request("POST", secrets, typed("Secret", "s", stringData={"password": "canary"}))
        await server.request("GET", maps)
        await server.request("GET", f"{maps}/a")  # no rule
        await server.request("GET", f"{maps}?watch=true&timeoutSeconds=1")
        await server.request("POST", maps, typed("ConfigMap", "b"), token="wrong")
    await runner.cleanup()
    text = (tmp_path / "audit.log").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    by_verb = {
        (each["verb"], each["objectRef"]["resource"], each["stage"]): each
        for each in events
        if each["user"].get("username") == "admin" and "objectRef" in each
    }
    assert set(by_verb) == {
        ("create", "configmaps", "ResponseComplete"),
        ("create", "secrets", "RequestReceived"),
        ("create", "secrets", "ResponseComplete"),
        ("list", "configmaps", "RequestReceived"),
        ("list", "configmaps", "ResponseComplete"),
        ("watch", "configmaps", "RequestReceived"),
        ("watch", "configmaps", "ResponseStarted"),
        ("watch", "configmaps", "ResponseComplete"),
    }
    made = by_verb[("create", "configmaps", "ResponseComplete")]
    assert made["level"] == "RequestResponse"
    assert made["requestObject"]["data"] == {"k": "v"}
    assert made["responseObject"]["metadata"]["uid"]
    assert "managedFields" not in made["responseObject"]["metadata"]
    assert "canary" not in text
    assert [each["responseStatus"]["code"] for each in events if each["user"].get("username") == "system:anonymous"] == [401]
    # what was on its way to the webhook when the server stopped is sent once more
    assert {(each["auditID"], each["stage"]) for each in received} == {(each["auditID"], each["stage"]) for each in events}
