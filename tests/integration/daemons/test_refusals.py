"""What cannot work is refused in one sentence that names the culprit: exit status 2 for flags, 1 for the rest."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemons import ROOT, Bench, bench

# Runs every command line in one interpreter: starting one per case would take a second each.
PROGRAM = """
import contextlib, importlib, io, json, sys
from cli.__main__ import VERBS
from component.daemon import command
ended = []
for verb, *flags in json.load(sys.stdin):
    daemon = importlib.import_module(VERBS[verb][0]).DAEMON
    said, status = io.StringIO(), None
    with contextlib.redirect_stderr(said):
        try:
            command(daemon).main(flags, prog_name=f"pybernetes {verb}")
        except SystemExit as exit:
            status = exit.code
    ended.append((status, said.getvalue()))
json.dump(ended, sys.stdout)
"""


@dataclass(frozen=True)
class Case:
    verb: str
    flags: str  # {garbage}, {busy}, {dir}, {pki} and {kubeconfigs} are filled in; "+" stands for all that an API server needs
    status: int
    text: str


SCHEDULER = "--kubeconfig={kubeconfigs}/scheduler.kubeconfig"
MANAGER = "--kubeconfig={kubeconfigs}/controller-manager.kubeconfig"
KUBELET = "--kubeconfig={kubeconfigs}/kubelet.kubeconfig"
PROXY = "--kubeconfig={kubeconfigs}/proxy.kubeconfig"
CASES = [
    *[Case(verb, "--nope", 2, "No such option '--nope'") for verb in ("apiserver", "scheduler", "kubelet", "proxy")],
    *[Case(verb, "", 2, "--kubeconfig is needed") for verb in ("controller-manager", "scheduler", "kubelet", "proxy")],
    *[Case(verb, "--kubeconfig={garbage}", 2, "{garbage}") for verb in ("controller-manager", "scheduler", "kubelet", "proxy")],
    *[
        Case(verb, "--kubeconfig={dir}/none", 2, "{dir}/none: No such file")
        for verb in ("controller-manager", "scheduler", "kubelet", "proxy")
    ],
    Case("apiserver", "--secure-prt=1", 2, "Did you mean one of: '--secure-port'"),
    Case("apiserver", "", 2, "--tls-cert-file is needed"),
    Case("apiserver", "--secure-port=70000", 2, "'--secure-port': 70000 is not in the range"),
    Case("apiserver", "+ --client-ca-file={dir}/none", 2, "'--client-ca-file': File '{dir}/none' does not exist"),
    Case("apiserver", "+ --service-cluster-ip-range=abc", 2, "--service-cluster-ip-range: 'abc'"),
    Case("apiserver", "+ --service-node-port-range=9-1", 2, "--service-node-port-range=9-1"),
    Case("apiserver", "+ --authorization-mode=Foo", 2, "--authorization-mode: 'Foo'"),
    Case("apiserver", "+ --storage-backend=etcd2", 2, "--storage-backend"),
    Case("apiserver", "+ --storage-backend=etcd3", 2, "needs --etcd-servers"),
    Case("apiserver", "+ --etcd-servers=ftp://x", 2, "'ftp://x' is not the URL of an etcd server"),
    Case("apiserver", "+ --etcd-servers=https://x --etcd-certfile={pki}/ca.crt", 2, "--etcd-certfile and --etcd-keyfile go"),
    Case("apiserver", "+ --workers=2", 2, "--workers: several processes need a store that they can share"),
    Case("apiserver", "+ --tls-cert-file={garbage}", 1, "{garbage} holds nothing in PEM form"),
    Case("apiserver", "+ --tls-private-key-file={pki}/sa.key", 1, "the key does not belong to the certificate"),
    Case("apiserver", "+ --client-ca-file={garbage}", 1, "--client-ca-file {garbage}: holds nothing in PEM form"),
    Case("apiserver", "+ --token-auth-file={garbage}", 1, "--token-auth-file {garbage}: line 1: expected token,user,uid"),
    Case("apiserver", "+ --service-account-key-file={garbage}", 1, "--service-account-key-file {garbage}: holds no"),
    Case("apiserver", "+ --service-account-signing-key-file={garbage}", 1, "--service-account-signing-key-file {garbage}:"),
    Case("apiserver", "+ --kubelet-certificate-authority={garbage}", 1, "CA certificates from {garbage}"),
    Case("apiserver", "+ --secure-port={busy}", 1, "cannot listen on 127.0.0.1:{busy}: Address already in use"),
    Case("apiserver", "+ --bind-address=203.0.113.9", 1, "203.0.113.9:{port}: Cannot assign requested address"),
    Case("apiserver", "+ --storage-path={garbage}", 1, "{garbage}: the database is damaged"),
    Case("apiserver", "+ --storage-path=/proc/none/a.db", 1, "/proc/none: No such file or directory"),
    Case("scheduler", SCHEDULER + " --secure-port={busy}", 1, "cannot listen on 127.0.0.1:{busy}: Address already in use"),
    Case("scheduler", SCHEDULER + " --config={garbage}", 2, "configuration file {garbage} must be a mapping"),
    Case("scheduler", SCHEDULER + " --leader-elect-lease-duration=soon", 2, "'soon' is not a duration"),
    Case("controller-manager", MANAGER + " --controllers=foo", 2, '"foo" is not in the list of known controllers'),
    Case("controller-manager", MANAGER + " --root-ca-file={garbage}", 2, "--root-ca-file {garbage}: holds no certificate"),
    Case("controller-manager", MANAGER + " --allocate-node-cidrs", 2, "needs --cluster-cidr"),
    Case("controller-manager", MANAGER + " --tls-cert-file={pki}/ca.crt", 2, "--tls-private-key-file go together"),
    Case("kubelet", KUBELET + " --config={garbage}", 2, "kubelet configuration: not a mapping"),
    Case("kubelet", KUBELET + " --node-ip=abc", 2, "--node-ip: 'abc'"),
    Case("proxy", PROXY + " --metrics-bind-address=a:b", 2, "--metrics-bind-address: 'a:b'"),
    Case("proxy", PROXY + " --metrics-bind-address=127.0.0.1:{busy}", 1, "cannot listen on 127.0.0.1:{busy}"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[int, str, str]]]:
    """Exit status, what was said, and what should have been said, for each case."""
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "garbage").write_text("nothing of use\n")
    with bench(folder / "c") as keys, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        known = {"garbage": folder / "garbage", "busy": taken.getsockname()[1], "dir": folder, "port": keys.port}
        known |= {"pki": keys.pki, "kubeconfigs": keys.folder / "kubeconfigs"}
        lines = [_command_line(case, keys, known) for case in CASES]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(lines),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        wanted = [case.text.format(**known) for case in CASES]
        yield [(*ended, text) for ended, text in zip(json.loads(done.stdout), wanted, strict=True)]


def _command_line(case: Case, keys: Bench, known: dict[str, object]) -> list[str]:
    words = case.flags.format(**known).split()
    base = [f"--storage-path={Path(keys.folder, 'none.db')}"] if words[:1] == ["+"] else []
    return [case.verb, *(keys.apiserver_flags(*base, *words[1:]) if words[:1] == ["+"] else words)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case.verb} {case.flags}" for case in CASES])
def test_refusals(outcomes: list[tuple[int, str, str]], number: int) -> None:
    status, said, text = outcomes[number]
    assert text in said
    assert status == CASES[number].status
    assert "Traceback" not in said
    assert said.count("Error: ") == 1
