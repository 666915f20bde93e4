"""A real API server and the kubelet's real server behind it, joined by TLS; only containers are pretended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from component import tls, x509
from component.dynamic_certificates import CaBundle
from controlplane.apiserver.config import Kubelet
from tests.support.apiserver import TestServer, prepare, running_apiserver
from tests.support.kubelet import Running, running_kubelet

CLIENT = "kube-apiserver-kubelet-client"


@dataclass
class Cluster:
    api: TestServer
    kubelet: Running


def pod(name: str, node: str = "node-1", containers: tuple[str, ...] = ("c",)) -> dict[str, Any]:
    listed = [{"name": container, "image": "busybox:1.35"} for container in containers]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": listed}}


async def create(api: TestServer, path: str, body: dict[str, Any]) -> None:
    answer = await api.request("POST", path, body)
    assert answer.status == 201, answer.body


async def set_node(api: TestServer, host: str, port: int) -> None:
    """Register the node's address as a kubelet would."""
    status = {"addresses": [{"type": "InternalIP", "address": host}], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    path = "/api/v1/nodes/node-1/status"
    answer = await api.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as started:
        yield started


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Both servers, one node and one pod, ``p``."""
    config = Kubelet(tmp_path / f"{CLIENT}.crt", tmp_path / f"{CLIENT}.key", tmp_path / "ca.crt")
    _, ca = prepare(tmp_path, "memory")
    for name, request in {
        CLIENT: x509.Request(CLIENT, usages=(x509.CLIENT,)),
        "kubelet": x509.Request("system:node:node-1", ("system:nodes",), ip_addresses=("127.0.0.1",)),
    }.items():
        x509.issue(ca, request).save(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    async with running_apiserver(directory=tmp_path, kubelet=config) as api:
        context = tls.server_context(tmp_path / "kubelet.crt", tmp_path / "kubelet.key", tmp_path / "ca.crt")
        async with running_kubelet(context, client_ca=CaBundle(tmp_path / "ca.crt").current) as kubelet:
            await create(api, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
            await set_node(api, "127.0.0.1", int(kubelet.url.rpartition(":")[2]))
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await create(api, "/api/v1/namespaces/default/serviceaccounts", account)
            await create(api, "/api/v1/namespaces/default/pods", pod("p"))
            yield Cluster(api, kubelet)
