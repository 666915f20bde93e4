"""A highly available control plane on three machines: etcd and an API server on each, controllers and schedulers on two.

    with machines(3) as found, control_plane(folder, found) as plane:
        plane.part("apiserver-1").kill(); plane.part("etcd-0").restart()

Every part is a process as an operator would start it (the flags are those of ``docs/high-availability.md``); controllers and
schedulers reach the API through a balancer on their own machine, and so does the client, at ``plane.kubeconfig``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bootstrap.kubeconfigs import write_kubeconfigs
from bootstrap.pki import Identity, ensure_pki
from component import x509
from tests.support.daemons import ROOT
from tests.support.etcd import Etcd, EtcdMember, Place, running_etcd
from tests.support.machines import Machine

API_PORT = 6443
FRONT_PORT = 7443  # of each machine's balancer, on its loopback
ELECTION = ("--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s")
HEALTH = ("--health-interval=500ms", "--health-timeout=500ms")


class Part(Protocol):
    """A process that can die and come back."""

    name: str

    @property
    def alive(self) -> bool: ...

    @property
    def log(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def send(self, number: signal.Signals) -> None: ...


@dataclass
class Daemon:
    """One of our daemons. Its log is one file over all its lives."""

    name: str
    argv: Sequence[str]
    folder: Path
    process: "subprocess.Popen[bytes] | None" = None
    born: int = 0  # where in the log its present life begins

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def log(self) -> str:
        """Of its present life."""
        with self.log_file.open("rb") as file:
            file.seek(self.born)
            return file.read().decode(errors="replace")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        if self.alive:
            return
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "PYBERNETES"))}
        with self.log_file.open("ab") as log:
            self.born = log.tell()
            environment = {**kept, "PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait()


@dataclass
class Plane:
    """``parts`` by name: ``etcd-N``, ``apiserver-N``, ``controller-manager-N``, ``scheduler-N``; balancers stand beside them."""

    folder: Path
    etcd: Etcd
    kubeconfig: Path
    token: str
    ca: Path
    url: str
    daemons: dict[str, Daemon] = field(default_factory=dict)
    balancers: list[Daemon] = field(default_factory=list)

    @property
    def parts(self) -> dict[str, EtcdMember | Daemon]:
        return {**{member.name: member for member in self.etcd.members}, **self.daemons}

    def part(self, name: str) -> EtcdMember | Daemon:
        return self.parts[name]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        argv = ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout


@contextmanager
def control_plane(folder: Path, places: Sequence[Machine], *, masters: int = 2) -> Iterator[Plane]:
    """``masters`` machines have controllers and a scheduler."""
    keys = folder / "pki"
    for each in (keys, folder / "etcd", folder / "kubeconfigs", folder / "logs"):
        each.mkdir(parents=True)
    identity = Identity("master", "127.0.0.1", "10.96.0.1", api_port=FRONT_PORT)
    ensure_pki(keys, identity)
    _certify_servers(keys, [machine.address for machine in places])
    write_kubeconfigs(keys, folder / "kubeconfigs", folder / "admin.kubeconfig", identity)
    etcd_places = [Place(machine.address, machine.wrap, 2379, 2380) for machine in places]
    with running_etcd(folder / "etcd", tls=True, places=etcd_places) as etcd:
        token = (keys / "tokens.csv").read_text().split(",")[0]
        url = f"https://127.0.0.1:{FRONT_PORT}"
        plane = Plane(folder, etcd, folder / "admin.kubeconfig", token, keys / "ca.crt", url)
        try:
            _start(plane, keys, places, masters)
            yield plane
        finally:
            for daemon in [*plane.daemons.values(), *plane.balancers]:
                daemon.kill()


def _certify_servers(keys: Path, addresses: Sequence[str]) -> None:
    """One certificate that is good on every machine."""
    authority = x509.KeyPair.load(keys / "ca.crt", keys / "ca.key")
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
    wanted = x509.Request("kube-apiserver", dns_names=names, ip_addresses=("10.96.0.1", "127.0.0.1", *addresses))
    x509.issue(authority, wanted).save(keys / "apiserver.crt", keys / "apiserver.key")


def _start(plane: Plane, keys: Path, places: Sequence[Machine], masters: int) -> None:
    logs = plane.folder / "logs"

    def daemon(name: str, machine: Machine | None, verb: str, flags: Sequence[str]) -> Daemon:
        argv = [*(machine.wrap if machine else ()), sys.executable, "-m", "cli", verb, *flags]
        made = Daemon(name, argv, logs)
        made.start()
        return made

    fronts = [
        f"--servers={','.join(f'{machine.address}:{API_PORT}' for machine in places)}",
        f"--listen=127.0.0.1:{FRONT_PORT}",
        f"--certificate-authority={plane.ca}",
        *HEALTH,
    ]
    for number, machine in enumerate(places):
        flags = apiserver_flags(plane, keys, machine, number)
        plane.daemons[f"apiserver-{number}"] = daemon(f"apiserver-{number}", machine, "apiserver", flags)
    plane.balancers.append(daemon("balancer-client", None, "balancer", fronts))
    for number, machine in enumerate(places[:masters]):
        plane.balancers.append(daemon(f"balancer-{number}", machine, "balancer", fronts))
        for verb in ("controller-manager", "scheduler"):
            flags = [f"--kubeconfig={plane.folder / 'kubeconfigs' / f'{verb}.kubeconfig'}", *ELECTION]
            if verb == "controller-manager":
                flags += [f"--root-ca-file={plane.ca}", f"--service-account-private-key-file={keys / 'sa.key'}"]
            plane.daemons[f"{verb}-{number}"] = daemon(f"{verb}-{number}", machine, verb, flags)
    _wait(plane, "apiserver-0", lambda: plane.kubectl("get", "--raw", "/readyz") == "ok")
    if masters:
        _wait(plane, "controller-manager-0", lambda: plane.kubectl("get", "serviceaccount", "default", "-o", "name"))


def apiserver_flags(plane: Plane, keys: Path, machine: Machine, number: int) -> list[str]:
    """Each server asks its own machine's etcd first."""
    config = plane.etcd.config()
    servers = config.servers[number:] + config.servers[:number]
    config = replace(config, servers=servers)
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={machine.address}",
        f"--secure-port={API_PORT}",
        f"--etcd-servers={','.join(config.servers)}",
        f"--etcd-cafile={config.ca}",
        f"--etcd-certfile={config.certificate}",
        f"--etcd-keyfile={config.key}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--token-auth-file={keys / 'tokens.csv'}",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    ]


def _wait(plane: Plane, blamed: str, check: object, seconds: float = 60) -> None:
    assert callable(check)
    deadline = time.monotonic() + seconds
    while True:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            if check():
                return
        if time.monotonic() > deadline:
            raise AssertionError(f"{blamed} is not as it should be:\n{plane.daemons[blamed].log[-3000:]}")
        time.sleep(0.1)
