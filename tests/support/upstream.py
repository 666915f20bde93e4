"""Upstream's own API server beside ours, where its program has been built: v1.20.2, the newest one in Debian's archive.

    async with upstream_apiserver(folder) as upstream:
        await upstream.request("GET", "/api/v1/namespaces")

``KIT`` names the folder whose ``bin/`` holds ``kube-apiserver``. Where it is not, the test that asked is skipped and says so:
what upstream does is also written down in tests that run everywhere.
"""

import asyncio
import contextlib
import os
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from component import x509
from tests.support.apiserver import ADMIN_TOKEN, TOKENS, TestServer
from tests.support.etcd import Etcd, running_etcd
from tests.support.ports import free_port

FOLDER = Path(os.environ.get("KIT", "/var/tmp/conformance-kit")) / "bin"
VERSION = "v1.20.2"


def require(name: str) -> Path:
    """One of upstream's programs; skips, saying why, where it has not been built."""
    program = FOLDER / name
    if not program.exists():
        pytest.skip(f"upstream's {name} has not been built: {program} is not there (KIT names another folder)")
    return program


@contextlib.asynccontextmanager
async def upstream_apiserver(folder: Path, *flags: str, etcd: Etcd | None = None) -> AsyncIterator[TestServer]:
    """Upstream's server over an etcd of its own, or the one given, with the tokens of ``tests.support.apiserver``."""
    program = require("kube-apiserver")
    port = free_port()
    with contextlib.nullcontext(etcd) if etcd is not None else running_etcd(folder) as etcd:
        argv = [str(program), *_flags(folder, port), *flags, f"--etcd-servers={etcd.members[0].url}"]
        with (folder / "upstream.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            async with aiohttp.ClientSession() as session:
                server = _server(folder, port, session)
                server.kubeconfig = server.kubeconfig_for(ADMIN_TOKEN)
                await _ready(server, process, folder / "upstream.log")
                yield server
        finally:
            process.kill()
            await process.wait()


def _flags(folder: Path, port: int) -> list[str]:
    ca = x509.new_ca("upstream")
    ca.save(folder / "ca.crt", folder / "ca.key")
    names = x509.Request("kube-apiserver", dns_names=("localhost",), ip_addresses=("127.0.0.1",))
    x509.issue(ca, names).save(folder / "server.crt", folder / "server.key")
    traditional = serialization.PrivateFormat.TraditionalOpenSSL  # PKCS 8 is unknown to it
    key = ec.generate_private_key(ec.SECP256R1())
    door = x509.Request("kube-apiserver-kubelet-client", ("system:masters",), usages=(x509.CLIENT,))
    x509.issue(ca, door).save(folder / "kubelet-client.crt", folder / "kubelet-client.key")
    (folder / "sa.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, traditional, serialization.NoEncryption()))
    lines = [f'{token},{name},{uid},"{groups}"' for token, (name, uid, groups) in TOKENS.items()]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    return [
        "--bind-address=127.0.0.1",
        "--advertise-address=192.0.2.1",
        f"--secure-port={port}",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--service-account-key-file=sa.key",
        "--service-account-signing-key-file=sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-client-certificate=kubelet-client.crt",
        "--kubelet-client-key=kubelet-client.key",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the accounts
    ]


def _server(folder: Path, port: int, session: aiohttp.ClientSession) -> TestServer:
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    async def stop() -> None:
        raise NotImplementedError

    return TestServer(
        url=f"https://127.0.0.1:{port}",
        port=port,
        directory=folder,
        ca_file=folder / "ca.crt",
        admin_token=ADMIN_TOKEN,
        kubeconfig=folder / "kubeconfig",
        running=None,  # type: ignore[arg-type] # it runs elsewhere
        session=session,
        ca=x509.KeyPair.load(folder / "ca.crt", folder / "ca.key"),
        audit_log=folder / "audit.log",
        tls=tls,
        stop=stop,
    )


async def _ready(server: TestServer, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None, log.read_text()[-2000:]
            with contextlib.suppress(aiohttp.ClientError):
                # it is ready a moment before it has made the namespace
                paths = ("/readyz", "/api/v1/namespaces/default")
                if all([(await server.request("GET", path)).status == 200 for path in paths]):
                    return
            await asyncio.sleep(0.1)
