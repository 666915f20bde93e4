"""Files that say who is believed and what they may, taken up while the server runs; one that is broken changes nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.assembly import reloading
from controlplane.apiserver.authentication import configuration as authentication
from controlplane.apiserver.authorization import configuration as authorization
from tests.integration.apiserver.test_webhook_identity import Reviewer, reviewer
from tests.support.apiserver import TestServer, prepare, running_apiserver
from tests.support.control_plane import eventually

__all__ = ["reviewer"]
GROUP = "apiserver.config.k8s.io/v1"
VIEWER = "viewer-token"
PODS, SECRETS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/secrets"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.apiserver.assembly.server.LOOK_SECONDS", 0.02)


def write(path: Path, kind: str, **members: Any) -> None:
    path.write_text(json.dumps({"apiVersion": GROUP, "kind": kind, **members}))


async def reloads(server: TestServer, name: str) -> dict[str, float]:
    metric = f"apiserver_{name}_config_controller_automatic_reloads_total"
    lines = (await server.request("GET", "/metrics")).body.decode().splitlines()
    found = [line.removeprefix(metric) for line in lines if line.startswith(metric + "{")]
    return {line.split('"')[3]: float(line.rsplit(" ", 1)[1]) for line in found}


async def status(server: TestServer, path: str, token: str | None = None) -> int:
    return (await server.request("GET", path, token=token)).status


async def test_where_nobody_need_say_who_they_are(tmp_path: Path) -> None:
    file = tmp_path / "authentication.json"
    write(file, "AuthenticationConfiguration", anonymous={"enabled": True, "conditions": [{"path": "/livez"}]})
    config, _ = prepare(tmp_path, "memory")
    read = authentication.read(file.read_bytes())
    identity = replace(config.identity, authentication_file=file, anonymous_paths=read.paths)
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        assert [await status(server, path) for path in ("/livez", "/readyz", "/version")] == [200, 401, 401]
        write(file, "AuthenticationConfiguration", anonymous={"enabled": True, "conditions": [{"path": "/readyz"}]})

        async def taken_up() -> bool:
            return await status(server, "/readyz") == 200

        await eventually(taken_up)
        assert await status(server, "/livez") == 401
        file.write_text("kind: Broken")

        async def refused() -> bool:
            return (await reloads(server, "authentication")).get("failure") == 1.0

        await eventually(refused)
        assert await status(server, "/readyz") == 200  # what was read before stays
        write(file, "AuthenticationConfiguration", anonymous={"enabled": False})

        async def nobody() -> bool:
            return await status(server, "/readyz") == 401

        await eventually(nobody)
        assert await reloads(server, "authentication") == {"success": 2.0, "failure": 1.0}


def hook(tmp_path: Path, name: str, policy: str, *conditions: str) -> dict[str, Any]:
    webhook: dict[str, Any] = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": policy,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(tmp_path / "hook.json")},
        "cacheAuthorizedRequests": False,
        "cacheUnauthorizedRequests": False,
    }
    if conditions:
        webhook["matchConditions"] = [{"expression": each} for each in conditions]
        webhook["matchConditionSubjectAccessReviewVersion"] = "v1"
    return {"type": "Webhook", "name": name, "webhook": webhook}


RBAC = {"type": "RBAC", "name": "rbac"}


async def test_webhooks_by_condition_and_what_their_failure_means(tmp_path: Path, reviewer: Reviewer) -> None:
    file = tmp_path / "authorization.json"
    only_pods = "has(request.resourceAttributes) && request.resourceAttributes.resource == 'pods'"
    write(file, "AuthorizationConfiguration", authorizers=[hook(tmp_path, "pods", "NoOpinion", only_pods), RBAC])
    config, _ = prepare(tmp_path, "memory")
    identity = replace(config.identity, authorization_file=file, authorizers=authorization.read(file.read_bytes()))
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        assert await status(server, PODS, VIEWER) == 200
        assert await status(server, SECRETS, VIEWER) == 403
        assert await status(server, "/apis", VIEWER) == 200  # by RBAC
        assert [each["spec"]["resourceAttributes"]["resource"] for each in reviewer.asked] == ["pods"]
        reviewer.broken = True
        assert await status(server, PODS, VIEWER) == 403  # no opinion, and RBAC has none either
        write(file, "AuthorizationConfiguration", authorizers=[hook(tmp_path, "all", "Deny"), RBAC])

        async def denied() -> bool:
            return await status(server, "/apis", VIEWER) == 403  # the failure is a refusal now, before RBAC is asked

        await eventually(denied)
        reviewer.broken = False
        assert await status(server, PODS, VIEWER) == 200
        file.write_text(json.dumps({"apiVersion": GROUP, "kind": "AuthorizationConfiguration", "authorizers": []}))

        async def refused() -> bool:
            return (await reloads(server, "authorization")).get("failure") == 1.0

        await eventually(refused)
        assert await status(server, PODS, VIEWER) == 200
        metrics = (await server.request("GET", "/metrics")).body.decode()
        for line in (
            'apiserver_authorization_match_condition_exclusions_total{name="pods",type="Webhook"}',
            'apiserver_authorization_match_condition_evaluation_seconds_count{name="pods",type="Webhook"}',
            'apiserver_authorization_decisions_total{decision="allowed",name="rbac",type="RBAC"}',
            'apiserver_authorization_webhook_evaluations_total{name="all",result="success"}',
        ):
            assert line in metrics


async def test_policies_that_change(tmp_path: Path) -> None:
    file = tmp_path / "policies.jsonl"

    def policy(resource: str) -> str:
        spec = {"user": "nobody-special", "namespace": "*", "resource": resource, "apiGroup": "*"}
        return json.dumps({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec}) + "\n"

    file.write_text(policy("pods"))
    config, _ = prepare(tmp_path, "memory")
    identity = replace(config.identity, authorization_modes=("ABAC",), abac_policy=file)
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        assert (await status(server, PODS, VIEWER), await status(server, SECRETS, VIEWER)) == (200, 403)
        file.write_text(policy("secrets"))

        async def taken_up() -> bool:
            return await status(server, SECRETS, VIEWER) == 200

        await eventually(taken_up)
        assert await status(server, PODS, VIEWER) == 403


def test_looking_is_frequent_enough_to_be_believed() -> None:
    assert reloading.LOOK_SECONDS <= 60  # upstream looks every minute at the least
