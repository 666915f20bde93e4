"""Nothing secret is written where logs are collected, however much is logged."""

from pathlib import Path

import pytest

from tests.support.apiserver import TestServer
from tests.support.daemons import bench
from tests.support.encryption import IDENTITY, cipher, key, write

CANARY = "canary-in-a-secret"


def test_logs_hold_no_secrets(tmp_path: Path) -> None:
    """CVE-2020-8564, CVE-2020-8566, and the bearer tokens of the audit of 2019."""
    with bench(tmp_path / "c") as keys:
        audit = tmp_path / "audit.log"
        encryption = write(tmp_path / "encryption.json", cipher("aesgcm", "one"), IDENTITY)
        flags = (f"--encryption-provider-config={encryption}", "--encryption-provider-config-automatic-reload")
        server = keys.start_apiserver(f"--audit-log-path={audit}", "--v=9", "--enable-bootstrap-token-auth", *flags)
        made = keys.kubectl("create", "secret", "generic", "s", f"--from-literal=password={CANARY}", "-n", "kube-system")
        assert made.code == 0, made.err
        auth = "--docker-server=x", "--docker-username=u", f"--docker-password={CANARY}"
        assert keys.kubectl("create", "secret", "docker-registry", "d", *auth, "-n", "kube-system").code == 0
        assert keys.kubectl("get", "secret", "s", "-n", "kube-system", "-o", "yaml").code == 0
        wrong = ("wrong-bearer-token", "abcdef.0123456789abcdef", "a.b.c", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.")
        for token in wrong:
            assert keys.get("/api/v1/pods", token=token).status == 401
        keys.get(f"/api/v1/pods?access_token={keys.token}")
        assert server.stop() == 0
        text = server.log
        for secret in (CANARY, keys.token, *wrong, key("one")["secret"]):
            assert secret not in text
        assert CANARY not in audit.read_text()
        assert audit.stat().st_mode & 0o077 == 0


async def test_unknown_tokens_are_not_repeated(server: TestServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    for token in ("wrong-bearer-token", "abcdef.0123456789abcdef", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0."):
        answer = await server.request("GET", "/api/v1/pods", token=token)
        assert answer.status == 401
        assert token not in caplog.text
        assert token.encode() not in answer.body
