"""Joining across the two: our kubelet's bootstrap under upstream's API server and controllers, upstream's kubelet under ours."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS
from bootstrap import tokens
from cli import token as token_verb
from client import kubeconfig
from client.rest import Client
from component import x509
from component.clock import RealClock
from node.kubelet.certificate import bootstrap
from node.kubelet.certificate.bootstrap import Files
from node.kubelet.certificate.store import CertificateStore
from tests.support.apiserver import TestServer, prepare, running_apiserver
from tests.support.control_plane import control_plane, eventually
from tests.support.upstream import require, upstream_apiserver

pytestmark = [pytest.mark.slow, pytest.mark.root]
NODE = "node-7"


async def bootstrap_kubeconfig(server: TestServer, folder: Path) -> Path:
    """A token, the roles that it needs, and the file for ``--bootstrap-kubeconfig``."""
    made = tokens.Token(*tokens.parse(tokens.generate()), groups=(tokens.DEFAULT_GROUP,))
    async with Client(kubeconfig.load(server.kubeconfig), component="test") as admin:
        await token_verb._create(admin, made)
    path = folder / "bootstrap.kubeconfig"
    path.write_text(token_verb._bootstrap_kubeconfig(server.kubeconfig, str(made)))
    return path


@contextlib.asynccontextmanager
async def program(name: str, log: Path, arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as output:
        argv = [str(require(name)), *arguments]
        process = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_our_node_joins_upstreams_cluster(tmp_path: Path) -> None:
    require("kube-controller-manager")
    async with upstream_apiserver(tmp_path, "--enable-bootstrap-token-auth=true") as server:
        flags = [
            f"--kubeconfig={server.kubeconfig}",
            "--controllers=csrapproving,csrsigning",
            f"--cluster-signing-cert-file={tmp_path / 'ca.crt'}",
            f"--cluster-signing-key-file={tmp_path / 'ca.key'}",
            "--leader-elect=false",
            "--port=0",
            "--secure-port=0",
        ]
        files = Files(tmp_path / "kubelet.kubeconfig", await bootstrap_kubeconfig(server, tmp_path), tmp_path / "pki")
        async with program("kube-controller-manager", tmp_path / "manager.log", flags), asyncio.timeout(40):
            await bootstrap.bootstrap(files, NODE, RealClock())
        pair = CertificateStore(files.certificates, "kubelet-client").current()
        assert pair is not None
        found = x509.parse(pair.certificate)
        assert (found.common_name, found.organizations) == (f"system:node:{NODE}", ("system:nodes",))
        async with Client(kubeconfig.load(files.kubeconfig), component="test") as node:
            (request,) = (await node.list(CERTIFICATE_SIGNING_REQUESTS))["items"]
        assert request["metadata"]["name"].startswith("node-csr-")


async def test_upstreams_node_joins_our_cluster(tmp_path: Path) -> None:
    """Only as far as its certificate: it has no runtime to go on with."""
    require("kubelet")
    config, _ = prepare(tmp_path, "memory")
    signing = [f"--cluster-signing-cert-file={tmp_path / 'ca.crt'}", f"--cluster-signing-key-file={tmp_path / 'ca.key'}"]
    only = "certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller,serviceaccount-controller"
    async with (
        running_apiserver(directory=tmp_path, identity=replace(config.identity, bootstrap_tokens=True)) as server,
        control_plane(server, signing, schedule=False, controllers=only) as admin,
    ):
        flags = [
            f"--bootstrap-kubeconfig={await bootstrap_kubeconfig(server, tmp_path)}",
            f"--kubeconfig={tmp_path / 'joined.kubeconfig'}",
            f"--cert-dir={tmp_path / 'node-pki'}",
            f"--root-dir={tmp_path / 'root'}",
            f"--hostname-override={NODE}",
            "--container-runtime=remote",
            f"--container-runtime-endpoint=unix://{tmp_path / 'none.sock'}",
            "--cgroups-per-qos=false",
            "--enforce-node-allocatable=",
            "--healthz-port=0",
            "--read-only-port=0",
        ]
        store = CertificateStore(tmp_path / "node-pki", "kubelet-client")

        async def joined() -> bool:
            return store.current() is not None and (tmp_path / "joined.kubeconfig").exists()

        log = tmp_path / "kubelet.log"
        async with program("kubelet", log, flags):
            await eventually(joined, within=40)
        pair = store.current()
        assert pair is not None, log.read_text()[-2000:]
        assert x509.parse(pair.certificate).common_name == f"system:node:{NODE}"
        (request,) = (await admin.list(CERTIFICATE_SIGNING_REQUESTS))["items"]
        assert {condition["type"] for condition in request["status"]["conditions"]} == {"Approved"}
        # and our kubelet would go on from there
        assert bootstrap.is_still_valid(tmp_path / "joined.kubeconfig", RealClock().now())
