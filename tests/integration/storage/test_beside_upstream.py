"""Upstream's API server and ours on one etcd at the same time: each finds what the other stores, where it looks for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.config import Storage
from tests.support.apiserver import TestServer, running_apiserver
from tests.support.control_plane import eventually
from tests.support.etcd import running_etcd
from tests.support.upstream import require, upstream_apiserver

DEFAULT = "/api/v1/namespaces/default"
METADATA: dict[str, Any] = {"metadata": {"name": "by"}}
OBJECTS: dict[str, dict[str, Any]] = {
    f"{DEFAULT}/configmaps": {"data": {"k": "v"}},
    f"{DEFAULT}/services": {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
    f"{DEFAULT}/endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "/api/v1/nodes": {},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": []},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 7},
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": {"spec": {"podSelector": {}}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        }
    },
}


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[tuple[TestServer, TestServer]]:
    """Ours has made its bootstrap objects before upstream starts on them."""
    require("kube-apiserver")
    for name in ("etcd", "ours", "upstream"):
        (folder / name).mkdir()
    with running_etcd(folder / "etcd") as etcd:
        async with running_apiserver("etcd3", folder / "ours", storage=Storage("etcd3", etcd=etcd.config())) as ours:
            flags = (
                "--storage-media-type=application/json",
                # v1.20 knows other versions of these objects than are stored
                "--feature-gates=APIPriorityAndFairness=false",
                "--runtime-config=flowcontrol.apiserver.k8s.io/v1beta1=false,discovery.k8s.io/v1beta1=false",
            )
            async with upstream_apiserver(folder / "upstream", *flags, etcd=etcd) as upstream:
                yield ours, upstream


async def test_each_finds_what_the_other_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.apiserver.assembly.server.MEND_SECONDS", 1.0)
    async with both(tmp_path) as (ours, upstream):
        for path, body in OBJECTS.items():
            for writer, reader, name in ((ours, upstream, "by-ours"), (upstream, ours, "by-upstream")):
                made = await writer.request("POST", path, {**body, "metadata": {"name": name}})
                assert made.status == 201, made.body
                found = (await eventually(lambda reader=reader, path=path, name=name: _found(reader, f"{path}/{name}"))).json
                assert found["metadata"]["uid"] == made.json["metadata"]["uid"]
                assert found["metadata"]["resourceVersion"] == made.json["metadata"]["resourceVersion"]
                patch = {"metadata": {"labels": {"touched": "yes"}}}
                merge = "application/merge-patch+json"
                touched = await reader.request("PATCH", f"{path}/{name}", patch, content_type=merge)
                assert touched.status == 200, touched.body
                gone = await reader.request("DELETE", f"{path}/{name}")
                assert gone.status in (200, 202)
        await eventually(lambda: _both_behind_the_service(ours), within=25)


async def _both_behind_the_service(server: TestServer) -> bool:
    held = (await server.request("GET", f"{DEFAULT}/endpoints/kubernetes")).json
    addresses = {each["ip"] for subset in held["subsets"] for each in subset["addresses"]}
    assert addresses == {"127.0.0.1", "192.0.2.1"}
    return True


async def _found(server: TestServer, path: str) -> Any:
    answer = await server.request("GET", path)
    await asyncio.sleep(0)
    return answer if answer.status == 200 else None
