"""Upstream's own extension server, sample-apiserver, behind ours: delegated authentication, objects, kubectl's view of them."""

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from component import x509
from tests.support.apiserver import TestServer, running_apiserver, with_front_proxy
from tests.support.etcd import running_etcd
from tests.support.ports import free_port
from tests.support.upstream import require

NAME = "v1alpha1.wardle.example.com"
ROOT = "/apis/wardle.example.com/v1alpha1"
FLUNDERS = f"{ROOT}/namespaces/default/flunders"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    """With sample-apiserver registered and available."""
    program = require("sample-apiserver")
    _, changes = with_front_proxy(tmp_path)
    serving = x509.new_ca("extensions")
    names = x509.Request("sample", dns_names=("sample-api.default.svc",))
    x509.issue(serving, names).save(tmp_path / "sample.crt", tmp_path / "sample.key")
    port = free_port()
    async with running_apiserver(directory=tmp_path, **changes) as started:
        with running_etcd(tmp_path) as etcd, (tmp_path / "sample.log").open("wb") as log:
            argv = [
                str(program),
                f"--etcd-servers={etcd.members[0].url}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={tmp_path / 'sample.crt'}",
                f"--tls-private-key-file={tmp_path / 'sample.key'}",
                *(f"--{which}kubeconfig={started.kubeconfig}" for which in ("", "authentication-", "authorization-")),
            ]
            process = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path)
            try:
                await _register(started, port, base64.b64encode(serving.certificate).decode())
                yield started
            finally:
                process.kill()
                await process.wait()


async def _register(server: TestServer, port: int, bundle: str) -> None:
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    service = {"metadata": {"name": "sample-api", "namespace": "default"}, "spec": spec}
    assert (await server.request("POST", "/api/v1/namespaces/default/services", service)).status == 201
    wanted: dict[str, Any] = {
        "group": "wardle.example.com",
        "version": "v1alpha1",
        "service": {"namespace": "default", "name": "sample-api", "port": port},
        "groupPriorityMinimum": 2000,
        "versionPriority": 200,
        "caBundle": bundle,
    }
    assert (await server.request("POST", SERVICES, {"metadata": {"name": NAME}, "spec": wanted})).status == 201
    async with asyncio.timeout(30):
        while True:
            found = (await server.request("GET", f"{SERVICES}/{NAME}")).json
            conditions = (found.get("status") or {}).get("conditions") or [{}]
            if conditions[0].get("status") == "True":
                return
            await asyncio.sleep(0.05)


async def test_sample_apiserver_serves_its_objects_through_ours(server: TestServer) -> None:
    flunder = {"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "one"}, "spec": {}}
    made = await server.request("POST", FLUNDERS, flunder)
    assert made.status == 201, made.body
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    revision = made.json["metadata"]["resourceVersion"]
    where = f"{server.url}{FLUNDERS}?watch=true&resourceVersion={revision}"
    async with server.session.get(where, headers=headers, ssl=server.tls) as watch:
        labelled = {"metadata": {"labels": {"kept": "yes"}}}
        answer = await server.request("PATCH", f"{FLUNDERS}/one", labelled, content_type="application/merge-patch+json")
        assert answer.status == 200, answer.body
        event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("MODIFIED", {"kept": "yes"})
    refused = await server.request("GET", FLUNDERS, token="viewer-token")
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")

    code, out, err = await server.kubectl("get", "flunders", "-o", "name")
    assert (code, out) == (0, "flunder.wardle.example.com/one\n"), err
    code, out, err = await server.kubectl("api-versions")
    assert "wardle.example.com/v1alpha1" in out.split(), err
    code, out, err = await server.kubectl("explain", "flunders.spec")
    assert code == 0, err
    assert "reference" in out
    code, out, err = await server.kubectl("get", "apiservices", NAME, "--no-headers")
    assert out.split()[:3] == [NAME, "default/sample-api", "True"], err
    code, out, err = await server.kubectl("delete", "flunders", "one")
    assert code == 0, err
