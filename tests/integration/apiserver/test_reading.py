"""Lists, watches and the forms in which objects can be asked for."""

import asyncio
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest
import yaml

from controlplane.apiserver.wire import reply
from tests.support.apiserver import TestServer

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def fill(server: TestServer, count: int, **labels: str) -> None:
    for number in range(count):
        meta = {"name": f"m{number:03}", "labels": labels}
        await server.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}})


async def events(server: TestServer, path: str, **headers: str) -> AsyncIterator[Any]:
    sent = {"Authorization": f"Bearer {server.admin_token}", **headers}
    timeout = aiohttp.ClientTimeout(total=10)
    async with server.session.get(server.url + path, headers=sent, ssl=server.tls, timeout=timeout) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            yield json.loads(line)


async def test_lists_carry_items_without_their_type(server: TestServer) -> None:
    await fill(server, 2)
    answer = (await server.request("GET", MAPS)).json
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["m000", "m001"]
    assert "kind" not in answer["items"][0]
    assert answer["metadata"]["resourceVersion"] == answer["items"][1]["metadata"]["resourceVersion"]


async def test_pages_show_one_consistent_state(server: TestServer) -> None:
    await fill(server, 5)
    first = (await server.request("GET", f"{MAPS}?limit=2")).json
    assert first["metadata"]["remainingItemCount"] == 3
    await server.request("DELETE", f"{MAPS}/m004")
    names, token = [item["metadata"]["name"] for item in first["items"]], first["metadata"]["continue"]
    while token:
        page = (await server.request("GET", f"{MAPS}?limit=2&continue={token}")).json
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["m000", "m001", "m002", "m003", "m004"]


async def test_selectors_choose(server: TestServer) -> None:
    await fill(server, 3, color="red")
    answer = (await server.request("GET", f"{MAPS}?labelSelector=color%20in%20(red)&fieldSelector=metadata.name%3Dm001")).json
    assert [item["metadata"]["name"] for item in answer["items"]] == ["m001"]
    assert (await server.request("GET", f"{MAPS}?labelSelector=!color")).json["items"] == []


async def test_tables_have_rows_for_kubectl(server: TestServer) -> None:
    await fill(server, 1)
    table = (await server.request("GET", MAPS, headers={"Accept": TABLE})).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] == ["m000", 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = (await server.request("GET", f"{MAPS}?includeObject=Object", headers={"Accept": TABLE})).json
    assert whole["rows"][0]["object"]["data"] == {"k": "v"}


async def test_metadata_alone(server: TestServer) -> None:
    await fill(server, 1)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = (await server.request("GET", MAPS, headers={"Accept": accept})).json
    assert answer["kind"] == "PartialObjectMetadataList"
    assert set(answer["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_yaml_and_pretty_on_request(server: TestServer) -> None:
    await fill(server, 1)
    text = (await server.request("GET", f"{MAPS}/m000", headers={"Accept": "application/yaml"})).body.decode()
    assert text.startswith("apiVersion: v1\n")
    pretty = (await server.request("GET", f"{MAPS}/m000?pretty=true")).body
    assert b'\n  "kind": "ConfigMap"' in pretty


async def test_protobuf_for_those_who_insist(server: TestServer) -> None:
    from apimachinery.codecs import protobuf

    await fill(server, 1)
    only = {"Accept": "application/vnd.kubernetes.protobuf"}
    answer = await server.request("GET", f"{MAPS}/m000", headers=only)
    assert answer.headers["Content-Type"] == "application/vnd.kubernetes.protobuf"
    assert protobuf.decode(answer.body) == (await server.request("GET", f"{MAPS}/m000")).json
    listed = protobuf.decode((await server.request("GET", MAPS, headers=only)).body)
    assert (listed["kind"], listed["items"][0]["data"]) == ("ConfigMapList", {"k": "v"})
    both = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
    assert (await server.request("GET", f"{MAPS}/m000", headers=both)).headers["Content-Type"] == "application/json"


async def test_large_lists_are_compressed_for_clients_that_take_it(server: TestServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"k": "x" * 200_000}}
    await server.request("POST", MAPS, body)
    headers = {"Authorization": f"Bearer {server.admin_token}", "Accept-Encoding": "gzip"}
    request = server.session.get(server.url + MAPS, headers=headers, ssl=server.tls, auto_decompress=False)
    async with request as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(json.loads(gzip.decompress(await answer.read()))["items"]) == 1


async def test_a_large_list_arrives_whole_in_every_form(server: TestServer) -> None:
    for number in range(30):
        meta = {"name": f"m{number:03}"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": str(number) * 30_000}}
        await server.request("POST", MAPS, body)
    plain = {"Accept-Encoding": "identity"}
    whole = await server.request("GET", MAPS, headers=plain)
    assert int(whole.headers["Content-Length"]) == len(whole.body) > 1_000_000
    again = await server.request("GET", MAPS, headers=plain)
    packed = await server.request("GET", MAPS, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert whole.json["items"] == again.json["items"] == packed.json["items"]
    assert [item["data"]["k"][:2] for item in whole.json["items"]] == [(str(number) * 2)[:2] for number in range(30)]
    page = (await server.request("GET", f"{MAPS}?limit=20")).json
    rest = (await server.request("GET", f"{MAPS}?limit=20&continue={page['metadata']['continue']}")).json
    assert page["items"] + rest["items"] == whole.json["items"]


async def test_who_does_not_read_the_answer_is_disconnected(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "STALLED_SECONDS", 0.2)
    for number in range(12):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}, "data": {"k": "x" * 900_000}}
        await server.request("POST", MAPS, body)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls, limit=1024)
    head = f"GET {MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.admin_token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n")
    await asyncio.sleep(1)
    got = 0
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        async with asyncio.timeout(10):
            while data := await reader.read(1 << 20):
                got += len(data)
    assert got < 12 * 900_000
    writer.close()


async def test_a_watch_shows_what_happens_after_its_version(server: TestServer) -> None:
    await fill(server, 1)
    version = (await server.request("GET", MAPS)).json["metadata"]["resourceVersion"]
    stream = events(server, f"{MAPS}?watch=1&resourceVersion={version}")
    first = asyncio.ensure_future(anext(stream))
    patch = {"data": {"k": "w"}}
    await server.request("PATCH", f"{MAPS}/m000", patch, content_type="application/merge-patch+json")
    event = await first
    assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"k": "w"})
    deleted = (await server.request("DELETE", f"{MAPS}/m000")).json
    event = await anext(stream)
    assert (event["type"], event["object"]["metadata"]["uid"]) == ("DELETED", deleted["details"]["uid"])
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version) + 1
    await stream.aclose()


async def test_a_watcher_that_reads_slowly_gets_everything_in_order(server: TestServer) -> None:
    await fill(server, 1)
    version = (await server.request("GET", MAPS)).json["metadata"]["resourceVersion"]
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls, limit=1 << 22)
    path = f"{MAPS}?watch=1&resourceVersion={version}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.admin_token}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    got: list[str] = []
    for number in range(60):  # more than connection and kernel hold, with small events between large ones
        data = {"n": str(number), "pad": "x" * (900_000 if number % 3 else 10)}
        await server.request("PATCH", f"{MAPS}/m000", {"data": data}, content_type="application/merge-patch+json")
        if number in (30, 45):
            got += [await _event_number(reader) for _ in range(15)]
    got += [await _event_number(reader) for _ in range(60 - len(got))]
    assert got == [str(number) for number in range(60)]
    writer.close()


async def _event_number(reader: asyncio.StreamReader) -> str:
    """Every event is a chunk of its own."""
    line = await reader.readexactly(int(await reader.readline(), 16))
    await reader.readexactly(2)
    return str(json.loads(line)["object"]["data"]["n"])


async def test_a_watch_from_nowhere_begins_with_the_present(server: TestServer) -> None:
    await fill(server, 2)
    stream = events(server, f"{MAPS}?watch=true&timeoutSeconds=1")
    assert [event["type"] async for event in stream] == ["ADDED", "ADDED"]


async def test_streamed_lists_end_with_a_bookmark(server: TestServer) -> None:
    await fill(server, 1)
    path = f"{MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    seen = [event async for event in events(server, path)]
    assert [event["type"] for event in seen[:2]] == ["ADDED", "BOOKMARK"]
    assert seen[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_table_watches_name_their_columns_once(server: TestServer) -> None:
    await fill(server, 2)
    seen = [event async for event in events(server, f"{MAPS}?watch=1&timeoutSeconds=1", Accept=TABLE)]
    assert [event["object"]["kind"] for event in seen] == ["Table", "Table"]
    assert seen[0]["object"]["columnDefinitions"]
    assert not seen[1]["object"]["columnDefinitions"]


async def test_watching_one_name(server: TestServer) -> None:
    await fill(server, 2)
    path = f"{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dm001"
    assert [event["object"]["metadata"]["name"] async for event in events(server, path)] == ["m001"]


async def test_events_of_both_groups_are_one_object(server: TestServer) -> None:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-11-30T11:16:38.000001Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "note": "hello",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    made = await server.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)
    assert made.status == 201, made.json
    core = (await server.request("GET", "/api/v1/namespaces/default/events/e")).json
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "hello", "p")
    listed = (await server.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")).json
    assert listed["items"][0]["note"] == "hello"
    path = "/apis/events.k8s.io/v1/namespaces/default/events?watch=1&timeoutSeconds=1"
    seen = [event async for event in events(server, path)]
    assert (seen[0]["type"], seen[0]["object"]["apiVersion"], seen[0]["object"]["note"]) == ("ADDED", "events.k8s.io/v1", "hello")


@pytest.mark.parametrize(
    ("group", "selector", "found"),
    [
        ("apis/events.k8s.io/v1", "reportingController=test", 1),
        ("apis/events.k8s.io/v1", "reportingController=other", 0),
        ("apis/events.k8s.io/v1", "regarding.name=p,type=Normal", 1),
        ("apis/events.k8s.io/v1", "regarding.name!=p", 0),
        ("api/v1", "source=test", 1),  # the reporting component, when no source is told
        ("api/v1", "involvedObject.name=p,reportingComponent=test", 1),
        ("apis/events.k8s.io/v1", "involvedObject.name=p", None),
        ("api/v1", "regarding.name=p", None),
    ],
)
async def test_each_group_selects_events_by_its_own_names(
    server: TestServer, group: str, selector: str, found: int | None
) -> None:
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-11-30T11:16:38.000001Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    made = await server.request("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)
    assert made.status == 201, made.json
    listed = await server.request("GET", f"/{group}/namespaces/default/events?fieldSelector={quote(selector)}")
    if found is None:
        assert (listed.status, listed.json["message"]) == (400, f"field label not supported: {selector.partition('=')[0]}")
    else:
        assert len(listed.json["items"]) == found


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/apps", "/openapi/v3", "/openapi/v3/api/v1"])
async def test_documents_can_be_revalidated(server: TestServer, path: str) -> None:
    answer = await server.request("GET", path)
    assert answer.status == 200
    again = await server.request("GET", path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


async def test_metrics_count_requests(server: TestServer) -> None:
    await fill(server, 1)
    text = (await server.request("GET", "/metrics")).body.decode()
    assert 'apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps"' in text
    assert "apiserver_request_duration_seconds_bucket{" in text


@pytest.mark.parametrize("count", [0, 1, 60])
async def test_a_list_in_forms_for_people_says_the_same(server: TestServer, count: int) -> None:
    """It is made object by object, and looks as if it had been made at once."""
    await server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "forms"}})
    for number in range(count):
        data = {"metadata": {"name": f"m{number:02}"}, "data": {"text": 'two\nlines "quoted"', "more": "ü: - [x]"}}
        assert (await server.request("POST", "/api/v1/namespaces/forms/configmaps", data)).status == 201
    path = "/api/v1/namespaces/forms/configmaps"
    plain = (await server.request("GET", path)).json
    assert len(plain["items"]) == count
    pretty = await server.request("GET", f"{path}?pretty=true")
    assert pretty.body == orjson.dumps(plain, option=orjson.OPT_INDENT_2)
    as_yaml = await server.request("GET", path, headers={"Accept": "application/yaml"})
    assert as_yaml.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(as_yaml.body) == plain
    assert as_yaml.body.decode() == yaml.safe_dump(plain, sort_keys=True, allow_unicode=True)
