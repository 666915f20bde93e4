"""Single daemons as a person starts them: ``pybernetes VERB --flags``, each a process of its own, with keys made here.

Used by tests of the daemons themselves; a whole cluster is ``tests.support.cluster``.
"""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.kubeconfigs import write_kubeconfigs
from bootstrap.pki import Identity, ensure_pki
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
NODE = "node-1"


def processor_seconds(pid: int) -> float:
    """User and system time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Daemon:
    """A started daemon. ``log`` is its standard error; nothing is expected on its standard output."""

    verb: str
    process: "subprocess.Popen[str]"
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 10) -> int:
        """Signal it and return its exit status. Fails the test when it outlives ``seconds``."""
        self.process.send_signal(number)
        return self.ended(seconds)

    def ended(self, seconds: float = 10) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.verb} still runs after {seconds} s:\n{self.log[-2000:]}") from None


@dataclass
class Bench:
    """A folder with the keys of one small cluster, and the daemons started from it; all are killed at the end."""

    folder: Path
    port: int  # of the API server
    wrap: Sequence[str] = ()  # put before each command line, as `nsenter ... --`
    storage: Sequence[str] = ()  # flags of the API server's store; a database in the folder without any
    started: list[Daemon] = field(default_factory=list)

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def token(self) -> str:
        return (self.pki / "tokens.csv").read_text().split(",")[0]

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / "kubeconfigs" / f"{name}.kubeconfig"

    def start(self, verb: str, *flags: str, environment: Mapping[str, str] | None = None, module: str = "cli") -> Daemon:
        log = self.folder / f"{verb}-{len(self.started)}.log"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "PYBERNETES"))}
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*self.wrap, sys.executable, "-m", module, verb, *flags],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                text=True,
                env={**kept, "PYTHONPATH": str(ROOT), **(environment or {})},
            )
        daemon = Daemon(verb, process, log)
        self.started.append(daemon)
        return daemon

    def apiserver_flags(self, *more: str) -> list[str]:
        """Everything an API server needs, on ``port``, with its database in the folder."""
        pki = self.pki
        return [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            *(self.storage or [f"--storage-path={self.folder / 'state.db'}"]),
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--token-auth-file={pki / 'tokens.csv'}",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *more,
        ]

    def start_apiserver(self, *more: str, seconds: float = 30) -> Daemon:
        """Start one and wait until it is ready."""
        daemon = self.start("apiserver", *self.apiserver_flags(*more))
        self.wait(daemon, lambda: self.get("/readyz").status == 200, seconds)
        return daemon

    def wait(self, daemon: Daemon, check: Callable[[], object], seconds: float = 30) -> None:
        """Until ``check`` holds; fails at once, with the log, when the daemon ends before that."""
        deadline = time.monotonic() + seconds
        while True:
            with suppress(OSError, http.client.HTTPException):
                if check():
                    return
            status = daemon.process.poll()
            if status is not None or time.monotonic() > deadline:
                raise AssertionError(f"{daemon.verb} ({status=}) is not as it should be:\n{daemon.log[-3000:]}")
            time.sleep(0.05)

    def get(self, path: str, *, port: int = 0, token: str = "", tls: bool = True, method: str = "GET") -> "Reply":
        """An HTTP(S) request to one of the daemons; every status is an answer, not an exception."""
        scheme, port = ("https" if tls else "http"), port or self.port
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}{path}", method=method)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        context = ssl._create_unverified_context() if tls else None
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:
                return Reply(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as answer:
            with answer:
                return Reply(answer.code, answer.read().decode(), answer.headers)

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> "Ran":
        argv = [*self.wrap, "kubectl", f"--kubeconfig={kubeconfig or self.admin_kubeconfig}", *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Reply:
    status: int
    body: str
    headers: Mapping[str, str]

    @property
    def json(self) -> object:
        return json.loads(self.body)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@contextmanager
def bench(folder: Path, wrap: Sequence[str] = ()) -> Iterator[Bench]:
    """Keys and kubeconfigs in ``folder``. ``wrap`` may put every daemon into a network namespace."""
    made = Bench(folder, free_port(), wrap)
    identity = Identity(NODE, "127.0.0.1", "10.96.0.1", api_port=made.port)
    for part in (made.pki, folder / "kubeconfigs"):
        part.mkdir(parents=True)
    ensure_pki(made.pki, identity)
    write_kubeconfigs(made.pki, folder / "kubeconfigs", made.admin_kubeconfig, identity)
    try:
        yield made
    finally:
        for daemon in made.started:
            with suppress(ProcessLookupError):
                daemon.process.kill()
            daemon.process.wait()
