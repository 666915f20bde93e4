"""A real API server in the test's own process: memory or SQLite, its own PKI, a port of the kernel's choice.

    async with running_apiserver() as server:
        server.url, server.ca_file, server.admin_token, server.kubeconfig

``server.request(method, path, body)`` is a small client for tests of the API itself; ``server.kubectl(...)`` runs the stock one.
"""

import asyncio
import contextlib
import io
import json
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from component import x509
from controlplane.apiserver.assembly.server import Running, running
from controlplane.apiserver.config import Aggregation, Audit, Config, FrontProxy, Identity, Serving, Storage

_LARGE = 1 << 20
ADMIN_TOKEN = "admin-token-of-the-tests"
TOKENS = {
    ADMIN_TOKEN: ("admin", "1", "system:masters"),
    "viewer-token": ("nobody-special", "2", ""),
    "scheduler-token": ("system:kube-scheduler", "3", ""),
    "controller-manager-token": ("system:kube-controller-manager", "4", ""),
    "proxy-token": ("system:kube-proxy", "5", ""),
    "node-token": ("system:node:node-1", "6", "system:nodes"),
}


@dataclass
class Answer:
    """What came back: ``json`` is None for bodies of other types."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class TestServer:
    __test__ = False

    url: str
    port: int
    directory: Path
    ca_file: Path
    admin_token: str
    kubeconfig: Path
    running: Running
    session: aiohttp.ClientSession
    ca: x509.KeyPair
    audit_log: Path
    tls: ssl.SSLContext
    stop: Callable[[], Awaitable[None]]  # drains and stops the server before the block ends
    kubectl_program: str = "kubectl"

    def kubeconfig_for(self, token: str) -> Path:
        """A kubeconfig for one of ``TOKENS``."""
        path = self.directory / f"{TOKENS[token][0].replace(':', '-')}.kubeconfig"
        text = _kubeconfig(self.url, self.ca_file, token)
        if not path.exists() or path.read_text() != text:  # a kubectl that runs already may be reading it
            path.write_text(text)
        return path

    def client_certificate(self, common_name: str, *organizations: str) -> tuple[Path, Path]:
        """A certificate signed by the client CA, and its key."""
        pair = x509.issue(self.ca, x509.Request(common_name, organizations, usages=(x509.CLIENT,)))
        stem = self.directory / common_name.replace(":", "-")
        certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        pair.save(certificate, key)
        return certificate, key

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = ADMIN_TOKEN,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """``body`` is encoded as JSON unless it is bytes or text."""
        data: Any = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        sent = {"Content-Type": content_type, **(headers or {})} if data is not None else dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if data is not None and len(data) > _LARGE:  # aiohttp warns about large bodies that are not files
            data = io.BytesIO(data.encode() if isinstance(data, str) else data)
        target = URL(self.url + path, encoded=True)
        async with self.session.request(method, target, data=data, headers=sent, ssl=self.tls) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def fresh(self, token: str, path: str, body: Any) -> int:
        """The status of a POST on a connection of its own: the server remembers who speaks on one for a while."""
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post(self.url + path, json=body, headers=headers, ssl=self.tls) as answer:
                return answer.status

    async def audited(self, audit_id: str) -> Any:
        """What the audit log says of a request, by the ``Audit-Id`` of its answer; it is written a moment later."""
        async with asyncio.timeout(5):
            while True:
                text = self.audit_log.read_text() if self.audit_log.exists() else ""
                for event in map(json.loads, text.splitlines()):
                    if event["auditID"] == audit_id:
                        return event
                await asyncio.sleep(0.01)

    async def kubectl(self, *arguments: str, stdin: str | None = None, token: str = ADMIN_TOKEN) -> tuple[int, str, str]:
        """Run the stock kubectl; exit code, standard output, standard error."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "KUBECONFIG": str(self.kubeconfig_for(token))}
        process = await asyncio.create_subprocess_exec(
            self.kubectl_program,
            *arguments,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        out, err = await process.communicate(stdin.encode() if stdin is not None else None)
        return process.returncode or 0, out.decode(), err.decode()


def _kubeconfig(url: str, ca_file: Path, token: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
    )


@contextlib.asynccontextmanager
async def running_apiserver(backend: str = "memory", directory: Path | None = None, **changes: Any) -> AsyncIterator[TestServer]:
    """``changes`` replace members of the Config (``service_ranges=...``; ``serving`` may be a dict of changes).

    A ``directory`` given keeps data between two runs.
    """
    async with contextlib.AsyncExitStack() as stack:
        where = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyb-api-", ignore_cleanup_errors=True)))
        config, ca = prepare(where, backend)
        if isinstance(changes.get("serving"), dict):
            changes["serving"] = replace(config.serving, **changes["serving"])
        session = await stack.enter_async_context(aiohttp.ClientSession())
        server_stack = await stack.enter_async_context(contextlib.AsyncExitStack())
        started = await server_stack.enter_async_context(running(replace(config, **changes)))
        url = f"https://127.0.0.1:{started.address.port}"
        tls = ssl.create_default_context(cafile=str(where / "ca.crt"))
        kubeconfig = where / "admin.kubeconfig"
        kubeconfig.write_text(_kubeconfig(url, where / "ca.crt", ADMIN_TOKEN))
        yield TestServer(
            url,
            started.address.port,
            where,
            where / "ca.crt",
            ADMIN_TOKEN,
            kubeconfig,
            started,
            session,
            ca,
            where / "audit.log",
            tls,
            server_stack.aclose,
        )


def with_front_proxy(where: Path) -> tuple[bytes, dict[str, Any]]:
    """An authority for front proxies, and what makes a server over ``where`` one of them: changes of its Config."""
    ca, name = x509.new_ca("front-proxy-ca"), "front-proxy-client"
    ca.save(where / "front-proxy-ca.crt", where / "front-proxy-ca.key")
    files = where / f"{name}.crt", where / f"{name}.key"
    x509.issue(ca, x509.Request(name, usages=(x509.CLIENT,))).save(*files)
    config, _ = prepare(where, "memory")
    identity = replace(config.identity, front_proxy=FrontProxy(where / "front-proxy-ca.crt", (name,)))
    return ca.certificate, {"identity": identity, "aggregation": Aggregation(*files)}


def prepare(where: Path, backend: str) -> tuple[Config, x509.KeyPair]:
    """The files a server needs, made once: a test that adds to them calls this before it starts the server."""
    ca_files = (where / "ca.crt", where / "ca.key")
    if not ca_files[0].exists():
        x509.new_ca("kubernetes").save(*ca_files)
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        wanted = x509.Request("kube-apiserver", dns_names=names, ip_addresses=("127.0.0.1", "10.96.0.1"))
        x509.issue(x509.KeyPair.load(*ca_files), wanted).save(where / "apiserver.crt", where / "apiserver.key")
        x509.write_private(where / "sa.key", x509.new_key())
        lines = [f'{token},{name},{uid},"{groups}"' for token, (name, uid, groups) in TOKENS.items()]
        (where / "tokens.csv").write_text("\n".join(lines) + "\n")
    config = Config(
        Serving(
            where / "apiserver.crt", where / "apiserver.key", "127.0.0.1", 0, advertise_address="127.0.0.1", drain_seconds=1.0
        ),
        Identity(
            where / "ca.crt",
            where / "tokens.csv",
            (where / "sa.key",),
            where / "sa.key",
        ),
        Storage(backend, where / "store.db" if backend == "sqlite" else None, "NORMAL"),
        audit=Audit(where / "audit.log"),
    )
    return config, x509.KeyPair.load(*ca_files)
