"""Stock kubectl about identity and permission: programs that print credentials, ``whoami``, ``can-i`` and its list, ``--as``."""

import json
import sys
from pathlib import Path

from tests.security.granting import TOKEN, grant
from tests.support.apiserver import TestServer, running_apiserver


def prints(folder: Path, server: TestServer) -> Path:
    """A kubeconfig whose user is whoever a program says; the program counts how often it was asked."""
    program = folder / "credential.py"
    status = {"token": TOKEN, "expirationTimestamp": "2099-01-01T00:00:00Z"}
    printed = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    program.write_text(
        f"import os\nassert 'ExecCredential' in os.environ['KUBERNETES_EXEC_INFO']\nprint({json.dumps(json.dumps(printed))})\n"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(program)],
        "interactiveMode": "Never",
    }
    config = json.loads(server.kubeconfig.read_text())
    config["users"] = [{"name": "test", "user": {"exec": plugin}}]
    path = folder / "exec.kubeconfig"
    path.write_text(json.dumps(config))
    return path


async def test_a_program_may_say_who_one_is(tmp_path: Path) -> None:
    async with running_apiserver() as server:
        kubeconfig = prints(tmp_path, server)
        code, out, err = await server.kubectl(f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o", "json")
        assert code == 0, err
        assert json.loads(out)["status"]["userInfo"]["username"] == "nobody-special"


async def test_what_one_can_do() -> None:
    async with running_apiserver() as server:
        await grant(server, role="view")
        code, out, err = await server.kubectl("auth", "can-i", "--list", token=TOKEN)
        assert (code, err) == (0, "")
        rows = {line.split()[0]: line for line in out.splitlines()[1:] if line and not line.startswith(" ")}
        assert "[get list watch]" in rows["pods"]
        assert "[create]" in rows["selfsubjectaccessreviews.authorization.k8s.io"]
        assert "secrets" not in rows
        assert any("[/healthz]" in line and "[get]" in line for line in out.splitlines())
        _, _, err = await server.kubectl("auth", "can-i", "--list", token="node-token")
        why = "node authorizer does not support user rule resolution"
        assert err == f"Warning: the list may be incomplete: {why}\n"
        assert (await server.kubectl("auth", "can-i", "list", "pods", token=TOKEN))[:2] == (0, "yes\n")
        assert (await server.kubectl("auth", "can-i", "list", "secrets", token=TOKEN))[:2] == (1, "no\n")
        assert (await server.kubectl("auth", "can-i", "get", "/healthz", token=TOKEN))[:2] == (0, "yes\n")


async def test_as_somebody_else() -> None:
    async with running_apiserver() as server:
        options = ("--as=jane", "--as-group=dev", "--as-uid=7")
        code, out, err = await server.kubectl("auth", "whoami", *options, "-o", "json")
        assert code == 0, err
        info = json.loads(out)["status"]["userInfo"]
        assert (info["username"], info["uid"], info["groups"]) == ("jane", "7", ["dev", "system:authenticated"])
        code, out, _ = await server.kubectl("auth", "can-i", "list", "pods", *options)
        assert (code, out) == (1, "no\n")
        code, _, err = await server.kubectl("get", "pods", "--as=jane", token=TOKEN)
        assert code == 1
        assert "cannot impersonate" in err
