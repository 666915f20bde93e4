"""The API server comes back on the same database: same objects, same revisions, and watches that go on."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.assembly import server as server_assembly
from tests.support import custom
from tests.support.apiserver import ADMIN_TOKEN, TestServer, running_apiserver

MAPS = "/api/v1/namespaces/default/configmaps"


async def put(server: TestServer, name: str, value: str) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}}
    answer = await server.request("POST", MAPS, body)
    assert answer.status == 201
    made: dict[str, Any] = answer.json
    return made


async def watched(server: TestServer, revision: str, count: int) -> list[tuple[str, str, str]]:
    """Type, name and resourceVersion of the next events after ``revision``."""
    url = f"{server.url}{MAPS}?watch=1&resourceVersion={revision}"
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    found: list[tuple[str, str, str]] = []
    async with server.session.get(url, headers=headers, ssl=server.tls) as answer:
        assert answer.status == 200
        while len(found) < count:
            event = json.loads(await answer.content.readline())
            metadata = event["object"]["metadata"]
            found.append((event["type"], metadata.get("name", ""), metadata.get("resourceVersion", "")))
    return found


async def test_objects_revisions_and_watches_outlive_the_process(tmp_path: Path) -> None:
    async with running_apiserver("sqlite", tmp_path) as server:
        first = await put(server, "a", "1")
        second = await put(server, "b", "1")
        await server.request("DELETE", f"{MAPS}/b")
        third = await put(server, "c", "1")
    async with running_apiserver("sqlite", tmp_path) as server:
        answer = await server.request("GET", f"{MAPS}/a")
        assert answer.json == first
        story = await watched(server, first["metadata"]["resourceVersion"], 3)
        assert [(kind, name) for kind, name, _ in story] == [("ADDED", "b"), ("DELETED", "b"), ("ADDED", "c")]
        assert story[0][2] == second["metadata"]["resourceVersion"]
        assert story[2][2] == third["metadata"]["resourceVersion"]
        last = await put(server, "d", "1")
        assert int(last["metadata"]["resourceVersion"]) > int(third["metadata"]["resourceVersion"])
        assert await watched(server, third["metadata"]["resourceVersion"], 1) == [
            ("ADDED", "d", last["metadata"]["resourceVersion"])
        ]


async def test_metrics_tell_of_the_store(tmp_path: Path) -> None:
    async with running_apiserver("sqlite", tmp_path) as server:
        made = await put(server, "a", "1")
        text = (await server.request("GET", "/metrics")).body.decode()
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        assert float(lines['apiserver_storage_objects{resource="configmaps"}']) >= 1
        revision = float(lines['apiserver_watch_cache_resource_version{resource="configmaps"}'])
        assert revision >= int(made["metadata"]["resourceVersion"])
        assert 'apiserver_storage_objects{resource="deployments.apps"}' in lines
        assert float(lines["apiserver_storage_size_bytes"]) > 10_000


async def test_what_the_cluster_needs_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_assembly, "MEND_SECONDS", 0.05)
    async with running_apiserver() as server:
        here = "/api/v1/namespaces/default"
        paths = (
            f"{here}/services/kubernetes",
            f"{here}/endpoints/kubernetes",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
        )
        for path in paths:
            before = (await server.request("GET", path)).json["metadata"]["uid"]
            assert (await server.request("DELETE", path)).status == 200
            async with asyncio.timeout(5):
                while (answer := await server.request("GET", path)).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert answer.json["metadata"]["uid"] != before
        service = (await server.request("GET", paths[0])).json
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        slice_ = (await server.request("GET", paths[2])).json
        spoilt = {**slice_, "endpoints": []}
        await server.request("PUT", paths[2], spoilt)
        async with asyncio.timeout(5):
            while (await server.request("GET", paths[2])).json["endpoints"] != slice_["endpoints"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_definitions_and_their_deletion_outlive_the_process(tmp_path: Path) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    held = {**custom.widget("held"), "metadata": {"name": "held", "finalizers": ["example.com/keep"]}}
    async with running_apiserver("sqlite", tmp_path) as server:
        await custom.established(server, custom.definition())
        first = (await server.request("POST", path, held)).json
    async with running_apiserver("sqlite", tmp_path) as server:
        assert (await server.request("GET", f"{path}/held")).json == first
        assert (await server.request("POST", path, custom.widget("b", size=-1))).status == 422
        await server.request("DELETE", f"{custom.DEFINITIONS}/widgets.example.com")
        await custom.until(server, "widgets.example.com", "Terminating")
    async with running_apiserver("sqlite", tmp_path) as server:
        merge = "application/merge-patch+json"
        freed = await server.request("PATCH", f"{path}/held", {"metadata": {"finalizers": None}}, content_type=merge)
        assert freed.status == 200
        await custom.gone(server, "widgets.example.com")
