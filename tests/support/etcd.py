"""Real etcd for tests: one member, or several with TLS, in a folder and on ports of their own.

    with running_etcd(folder, members=3, tls=True) as etcd:
        etcd.config()            # for EtcdBackend.open
        etcd.members[0].kill()   # SIGKILL; .stop(), .start(), .pause(), .resume()
        etcd.ctl("get", "--prefix", "/registry/pods/")

``wrap`` puts each member into a network namespace (``("nsenter", "--net=...", "--")``) with an address of its own.
"""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from component import tls, x509
from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb
from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.etcd.keys import WHOLE
from tests.support.ports import free_port

PROGRAM = "/usr/bin/etcd"
ROOT_USER = "root"  # the common name of the client certificate: etcd's administrator when its access control is on


@dataclass
class Place:
    """Where a member runs. The ports are the kernel's choice unless given."""

    address: str = "127.0.0.1"
    wrap: Sequence[str] = ()
    client_port: int = 0
    peer_port: int = 0


@dataclass
class EtcdMember:
    """One etcd process. It can die and come back with its data."""

    name: str
    folder: Path
    place: Place
    arguments: Sequence[str]
    url: str
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def data(self) -> Path:
        return self.folder / f"{self.name}.etcd"

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        if self.alive:
            return
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ETCD")}
        with (self.folder / f"{self.name}.log").open("ab") as log:
            argv = [*self.place.wrap, PROGRAM, *self.arguments]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.send(number)
            self.send(signal.SIGCONT)
            self.process.wait()


@dataclass
class Etcd:
    folder: Path
    members: list[EtcdMember]
    tls: bool
    ca: x509.KeyPair | None = None
    wrap: Sequence[str] = field(default=())

    def config(self, **changes: Any) -> EtcdConfig:
        made = EtcdConfig(tuple(member.url for member in self.members), compact_every=0)
        if self.tls:
            files = {"ca": self.folder / "ca.crt", "certificate": self.folder / "root.crt", "key": self.folder / "root.key"}
            made = replace(made, **files)
        return replace(made, **changes)

    def flags(self) -> list[str]:
        """For an API server."""
        config = self.config()
        flags = ["--storage-backend=etcd3", f"--etcd-servers={','.join(config.servers)}"]
        if self.tls:
            flags += [f"--etcd-cafile={config.ca}", f"--etcd-certfile={config.certificate}", f"--etcd-keyfile={config.key}"]
        return flags

    def client_certificate(self, name: str) -> tuple[Path, Path]:
        """A certificate for the etcd user ``name``, and its key."""
        assert self.ca is not None
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        x509.issue(self.ca, x509.Request(name, usages=(x509.CLIENT,))).save(certificate, key)
        return certificate, key

    def ctl(self, *arguments: str, stdin: str | None = None, only: EtcdMember | None = None) -> str:
        """Debian's etcdctl, against every member or one. Fails the test when it fails."""
        urls = [only.url] if only else [member.url for member in self.members]
        argv = [*self.wrap, "etcdctl", f"--endpoints={','.join(urls)}", *arguments]
        if self.tls:
            argv += [
                f"--cacert={self.folder / 'ca.crt'}",
                f"--cert={self.folder / 'root.crt'}",
                f"--key={self.folder / 'root.key'}",
            ]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, env=environment, timeout=30, check=False)
        if done.returncode:
            raise AssertionError(f"etcdctl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def handled(self, method: str) -> int:
        """How many calls of a gRPC method (``Range``, ``Txn``) the members have answered, whoever asked."""
        context = None
        if self.tls:
            keys = {"certificate": self.folder / "root.crt", "key": self.folder / "root.key"}
            context = tls.client_context(ca_file=self.folder / "ca.crt", **keys)
        total = 0.0
        for member in self.members:
            with urllib.request.urlopen(f"{member.url}/metrics", context=context, timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            counted = (each for each in lines if each.startswith("grpc_server_handled_total") and f'method="{method}"' in each)
            total += sum(float(each.rpartition(" ")[2]) for each in counted)
        return int(total)

    def restore_member(self, member: EtcdMember, snapshot: Path) -> None:
        """etcd's own restore of ``etcdctl snapshot save``, into a member that has no data."""
        told = ("--name=", "--initial-cluster=", "--initial-advertise-peer-urls=", "--data-dir=")
        same = [argument for argument in member.arguments if argument.startswith(told)]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        argv = ["etcdctl", "snapshot", "restore", str(snapshot), *same]
        subprocess.run(argv, check=True, capture_output=True, env=environment, timeout=30)

    def status(self) -> list[dict[str, Any]]:
        """Of the members that answer."""
        found = []
        for member in self.members:
            with suppress(AssertionError, subprocess.TimeoutExpired):
                found += json.loads(self.ctl("endpoint", "status", "-w", "json", "--command-timeout=1s", only=member))
        return found

    @property
    def leader(self) -> EtcdMember:
        for found in self.status():
            if found["Status"]["leader"] == found["Status"]["header"]["member_id"]:
                return next(member for member in self.members if member.url == found["Endpoint"])
        raise AssertionError("etcd has no leader")

    def wait(self, seconds: float = 20) -> None:
        """Until a write goes through."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.ctl("endpoint", "health", "--command-timeout=1s", only=next(one for one in self.members if one.alive))
                return
            except (AssertionError, subprocess.TimeoutExpired, StopIteration):
                if time.monotonic() > deadline:
                    logs = "\n".join(f"{member.name}: {member.log[-1000:]}" for member in self.members)
                    raise AssertionError(f"etcd does not come up:\n{logs}") from None
                time.sleep(0.05)


@contextmanager
def running_etcd(
    folder: Path, *, members: int = 1, tls: bool = False, places: Sequence[Place] = (), more: Sequence[str] = ()
) -> Iterator[Etcd]:
    """``more`` goes on every command line. The first place's namespace is where ``ctl`` runs."""
    at = list(places) or [Place() for _ in range(members)]
    ca = _make_keys(folder, at) if tls else None
    scheme = "https" if tls else "http"
    for place in at:
        place.client_port, place.peer_port = place.client_port or free_port(), place.peer_port or free_port()
    names = [f"etcd-{number}" for number in range(len(at))]
    cluster = ",".join(f"{name}={scheme}://{place.address}:{place.peer_port}" for name, place in zip(names, at, strict=True))
    made = []
    for name, place in zip(names, at, strict=True):
        url, peer = f"{scheme}://{place.address}:{place.client_port}", f"{scheme}://{place.address}:{place.peer_port}"
        arguments = [
            f"--name={name}",
            f"--data-dir={folder / name}.etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={cluster}",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            "--logger=zap",
            "--log-level=warn",
            *_tls_flags(folder, tls=tls),
            *more,
        ]
        made.append(EtcdMember(name, folder, place, arguments, url))
    etcd = Etcd(folder, made, tls, ca, at[0].wrap)
    try:
        for member in made:
            member.start()
        etcd.wait()
        yield etcd
    finally:
        for member in made:
            member.kill()


def _make_keys(folder: Path, places: Sequence[Place]) -> x509.KeyPair:
    ca = x509.new_ca("etcd-ca")
    ca.save(folder / "ca.crt", folder / "ca.key")
    addresses = tuple(dict.fromkeys(["127.0.0.1", *(place.address for place in places)]))
    server = x509.Request("etcd", dns_names=("localhost",), ip_addresses=addresses, usages=(x509.SERVER, x509.CLIENT))
    x509.issue(ca, server).save(folder / "server.crt", folder / "server.key")
    x509.issue(ca, x509.Request(ROOT_USER, usages=(x509.CLIENT,))).save(folder / "root.crt", folder / "root.key")
    return ca


def _tls_flags(folder: Path, *, tls: bool) -> list[str]:
    if not tls:
        return []
    pair = [f"cert-file={folder / 'server.crt'}", f"key-file={folder / 'server.key'}", f"trusted-ca-file={folder / 'ca.crt'}"]
    return [
        *(f"--{one}" for one in pair),
        *(f"--peer-{one}" for one in pair),
        "--client-cert-auth",
        "--peer-client-cert-auth",
    ]


async def wipe(backend: EtcdBackend) -> None:
    """Remove every key, other tools' included."""
    everything = pb.DeleteRangeRequest(key=WHOLE, range_end=WHOLE)
    request = pb.TxnRequest(success=[pb.RequestOp(request_delete_range=everything)])
    await backend._call("KV", "Txn", request, safe=True)
