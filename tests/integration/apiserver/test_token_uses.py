"""Old tokens of service accounts are believed, and told of: metrics for who runs the cluster, the audit log for who is meant."""

import asyncio
import base64
import json
import time
from typing import Any

import jwt

from controlplane.apiserver.authentication.keys import load_private_key
from controlplane.apiserver.authentication.token_issuer import TokenIssuer
from tests.support.apiserver import TestServer, running_apiserver

NAMESPACE = "/api/v1/namespaces/default"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
SUBJECT = "system:serviceaccount:default:robot"


async def counts(server: TestServer) -> dict[str, int]:
    lines = (await server.request("GET", "/metrics")).body.decode().splitlines()
    found = (line.removeprefix("serviceaccount_").split() for line in lines if line.startswith("serviceaccount_"))
    return {name.removesuffix("_total"): int(float(value)) for name, value in found if float(value)}


async def annotations(server: TestServer, audit_id: str) -> dict[str, str]:
    async with asyncio.timeout(5):
        while True:
            text = server.audit_log.read_text() if server.audit_log.exists() else ""
            for event in map(json.loads, text.splitlines()):
                if event["auditID"] == audit_id:
                    told = event.get("annotations") or {}
                    return {key: value for key, value in told.items() if key.startswith("authentication.k8s.io/")}
            await asyncio.sleep(0.01)


async def account(server: TestServer, **more: Any) -> dict[str, Any]:
    made = await server.request("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "robot"}, **more})
    assert made.status == 201, made.body
    return dict(made.json)


async def test_a_token_that_should_have_been_renewed() -> None:
    async with running_apiserver() as server:
        robot = await account(server)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        usual = (await server.request("POST", f"{NAMESPACE}/serviceaccounts/robot/token", asked)).json["status"]["token"]
        claims = jwt.decode(usual, options={"verify_signature": False})
        issuer = TokenIssuer(load_private_key(server.directory / "sa.key"), claims["iss"])
        now = int(time.time())
        for began, stale in ((now - 10, False), (now - 4000, True)):
            token = issuer.issue(robot, claims["aud"], began, 9000, {}, warn_after=3607)
            before = await counts(server)
            for turn in range(2):  # the second is remembered on the connection: it is told of, not counted again
                answer = await server.request("POST", WHO, BODY, token=token)
                assert answer.json["status"]["userInfo"]["username"] == SUBJECT
                told = await annotations(server, answer.headers["Audit-Id"])
                assert list(told) == (["authentication.k8s.io/stale-token"] if stale else []), turn
                for text in told.values():
                    assert text.startswith(f"subject: {SUBJECT}, seconds after warning threshold: 39")
            name = "stale_tokens" if stale else "valid_tokens"
            assert await counts(server) == {**before, name: before.get(name, 0) + 1}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert answer.json["status"]["authenticated"]
        assert "authentication.k8s.io/stale-token" in await annotations(server, answer.headers["Audit-Id"])


async def test_a_token_from_a_secret() -> None:
    async with running_apiserver() as server:
        robot = await account(server, secrets=[{"name": "auto"}])
        key = load_private_key(server.directory / "sa.key")
        kind = TokenIssuer(key, "kubernetes/serviceaccount").verification

        async def secret(name: str) -> str:
            about = {"namespace": "default", "secret.name": name, "service-account.name": "robot"}
            about["service-account.uid"] = robot["metadata"]["uid"]
            claims = {f"kubernetes.io/serviceaccount/{key}": value for key, value in about.items()}
            token = jwt.encode({"iss": "kubernetes/serviceaccount", "sub": SUBJECT, **claims}, key, kind.algorithm)
            body = {"metadata": {"name": name}, "data": {"token": base64.b64encode(token.encode()).decode()}}
            assert (await server.request("POST", f"{NAMESPACE}/secrets", body)).status == 201
            return token

        async def use(token: str) -> tuple[int, str, dict[str, str]]:
            answer = await server.request("POST", WHO, BODY, token=token, headers={"Connection": "close"})
            told = await annotations(server, answer.headers["Audit-Id"])
            short = {name.removeprefix("authentication.k8s.io/"): value for name, value in told.items()}
            return answer.status, answer.headers.get("Warning", ""), short

        auto, manual = await secret("auto"), await secret("manual")
        status, warning, told = await use(auto)
        assert (status, told) == (201, {"legacy-token-autogenerated-secret": "auto", "legacy-token": SUBJECT})
        assert "instead of auto-generated secret-based tokens" in warning
        assert await use(manual) == (201, "", {"legacy-token-manual-secret": "manual", "legacy-token": SUBJECT})
        path, label = f"{NAMESPACE}/secrets/auto", {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
        merge = "application/merge-patch+json"
        assert (await server.request("PATCH", path, {"metadata": {"labels": label}}, content_type=merge)).status == 200
        status, _, told = await use(auto)
        assert (status, told["legacy-token-invalidated"]) == (401, "auto/default")
        assert "has been marked invalid. Use tokens from the TokenRequest API" in told["failure"]
        expected = {"legacy_tokens": 2, "legacy_auto_token_uses": 1, "legacy_manual_token_uses": 1}
        assert await counts(server) == {**expected, "invalid_legacy_auto_token_uses": 1}
