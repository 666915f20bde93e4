"""What the three gates, the audit log and encryption tell in /metrics, under the names that upstream's dashboards ask for."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

from controlplane.apiserver.audit.event import source_ips
from controlplane.apiserver.config import Audit, Storage
from tests.support.apiserver import TestServer, running_apiserver

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/audit": "baseline"}


async def scraped(server: TestServer) -> dict[str, float]:
    text = (await server.request("GET", "/metrics")).body.decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {re.sub(r"sha256:[0-9a-f]{64}", "HASH", name): float(value) for name, value in lines}


async def test_gates_count(tmp_path: Path) -> None:
    async with running_apiserver(audit=Audit(tmp_path / "audit.log")) as server:
        before = await scraped(server)
        await server.request("GET", "/api/v1/pods", token="viewer-token")
        await server.request("GET", "/api/v1/pods", token="wrong")
        await server.request("GET", "/healthz", token=None)
        for headers in ({"Impersonate-User": "jane@example.com"}, {"Impersonate-User": "jane", "Impersonate-Extra-x": ""}):
            await server.request("GET", "/api/v1/pods", headers=headers)
        await server.request("DELETE", "/api/v1/namespaces/default/pods/none", token="viewer-token")
        after = await scraped(server)

    def grew(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    assert grew('authentication_attempts{result="error"}') == 1
    assert grew('authentication_duration_seconds_count{result="error"}') == 1
    assert grew('authentication_attempts{result="success"}') == 6  # the scrape too
    assert grew('authenticated_user_requests{username="admin"}') == 3
    assert grew('authenticated_user_requests{username="other"}') == 3
    assert grew('authorization_attempts_total{result="no-opinion"}') >= 2
    assert grew('authorization_attempts_total{result="allowed"}') >= 2
    assert after['authorization_duration_seconds_bucket{le="0.001",result="allowed"}'] > 0
    assert grew('apiserver_impersonation_attempts_total{decision="allowed",mode="user-info"}') == 1
    assert grew('apiserver_audit_level_total{level="Metadata"}') == 1
    assert grew("apiserver_audit_event_total") == 1
    assert after["apiserver_audit_requests_rejected_total"] == 0


async def test_admission_counts() -> None:
    async with running_apiserver() as server:
        named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": RESTRICTED}}
        assert (await server.request("POST", "/api/v1/namespaces", named)).status == 201
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await server.request("POST", "/api/v1/namespaces/strict/serviceaccounts", account)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]},
        }
        assert (await server.request("POST", "/api/v1/namespaces/strict/pods", pod)).status == 403
        found = await scraped(server)
    where = 'request_operation="create",resource="pod",subresource=""'
    for mode, level in (("enforce", "restricted"), ("audit", "baseline")):
        policy = f'decision="deny",mode="{mode}",policy_level="{level}",policy_version="latest"'
        assert found[f"pod_security_evaluations_total{{{policy},{where}}}"] == 1
    prefix = "apiserver_admission_"
    labels = 'operation="CREATE",rejected="true",type="validate"'
    assert found[f"{prefix}step_admission_duration_seconds_count{{{labels}}}"] == 1
    assert found[f'{prefix}controller_admission_duration_seconds_count{{name="PodSecurity",{labels}}}'] == 1
    labels = 'operation="CREATE",rejected="false",type="admit"'
    assert found[f'{prefix}controller_admission_duration_seconds_count{{name="ServiceAccount",{labels}}}'] == 1


async def test_encryption_counts(tmp_path: Path) -> None:
    keys = [{"name": "k", "secret": base64.b64encode(b"0" * 32).decode()}]
    rule = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": keys}}, {"identity": {}}]}
    file = tmp_path / "encryption.json"
    file.write_text(
        json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]})
    )
    storage = replace(Storage("sqlite", tmp_path / "state.db"), encryption=file)
    async with running_apiserver("sqlite", tmp_path, storage=storage) as server:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        assert (await server.request("POST", "/api/v1/namespaces/default/secrets", secret)).status == 201
        found = await scraped(server)
    labels = 'transformation_type="to_storage",transformer_prefix="k8s:enc:aesgcm:v1:"'
    assert found[f'apiserver_storage_transformation_operations_total{{status="OK",{labels}}}'] == 1
    assert found[f"apiserver_storage_transformation_duration_seconds_count{{{labels}}}"] == 1
    assert found['apiserver_encryption_config_controller_last_config_info{apiserver_id_hash="HASH",hash="HASH"}'] == 1


def test_where_a_request_comes_from() -> None:
    proxied = {"X-Forwarded-For": "192.0.2.7, nonsense, 192.0.2.8", "X-Real-Ip": "192.0.2.9"}
    assert source_ips(proxied, "127.0.0.1") == ["192.0.2.7", "192.0.2.8", "192.0.2.9", "127.0.0.1"]
    assert source_ips({"X-Forwarded-For": "192.0.2.7", "X-Real-Ip": "192.0.2.7"}, "192.0.2.7") == ["192.0.2.7"]
    assert source_ips({"X-Forwarded-For": "9" * 100_000 + ",::1"}, "") == []
