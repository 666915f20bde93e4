import asyncio

import orjson
import pytest

from apimachinery import errors
from apimachinery.resources import DEPLOYMENTS, NODES, PODS
from client.fake import FAKE_CONFIG, FakeTransport, FakeWatch, Reply, failure
from client.rest import APPLY, STRATEGIC, Client, is_conflict, is_not_found
from client.transport import TransportError
from component.clock import FakeClock

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def transport():
    return FakeTransport()


@pytest.fixture
def client(transport, clock):
    return Client(FAKE_CONFIG, clock=clock, transport=transport)


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (lambda c: c.get(PODS, "web", "default"), "GET", "/api/v1/namespaces/default/pods/web", None),
        (lambda c: c.get(NODES, "n1"), "GET", "/api/v1/nodes/n1", None),
        (
            lambda c: c.list(PODS, label_selector="a in (b,c)", limit=5, resource_version="0"),
            "GET",
            "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=5&resourceVersion=0",
            None,
        ),
        (lambda c: c.list(PODS, "ns", continue_token="x=="), "GET", "/api/v1/namespaces/ns/pods?continue=x%3D%3D", None),
        (lambda c: c.create(PODS, POD), "POST", "/api/v1/namespaces/default/pods", POD),
        (lambda c: c.update(PODS, POD), "PUT", "/api/v1/namespaces/default/pods/web", POD),
        (lambda c: c.update_status(PODS, POD), "PUT", "/api/v1/namespaces/default/pods/web/status", POD),
        (
            lambda c: c.patch(DEPLOYMENTS, "d", {"a": 1}, APPLY, "ns", field_manager="me", force=True),
            "PATCH",
            "/apis/apps/v1/namespaces/ns/deployments/d?fieldManager=me&force=true",
            {"a": 1},
        ),
        (lambda c: c.delete(PODS, "web", "default"), "DELETE", "/api/v1/namespaces/default/pods/web", None),
        (
            lambda c: c.delete(PODS, "w", "d", propagation="Foreground", grace=0, preconditions={"uid": "u"}),
            "DELETE",
            "/api/v1/namespaces/d/pods/w",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Foreground",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u"},
            },
        ),
        (
            lambda c: c.post_subresource(PODS, "web", "binding", {"target": {"name": "n"}}, "default"),
            "POST",
            "/api/v1/namespaces/default/pods/web/binding",
            {"target": {"name": "n"}},
        ),
    ],
    ids=["get", "get-cluster", "list", "page", "create", "update", "status", "apply", "delete", "delete-options", "bind"],
)
async def test_verbs_ask_for_what_they_say(client, transport, call, method, path, body):
    transport.always(f"{method} {path.partition('?')[0]}", Reply(body=POD))
    assert await call(client) == POD
    request = transport.requests[0]
    assert (request.method, request.path) == (method, path)
    assert (request.body and orjson.loads(request.body)) == body


async def test_patches_name_their_kind(client, transport):
    transport.always("PATCH /api/v1/nodes/n", Reply(body={}))
    await client.patch(NODES, "n", {}, STRATEGIC)
    assert transport.requests[0].headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_a_status_becomes_its_error(client, transport):
    transport.on("GET /api/v1/nodes/n", failure(errors.not_found("nodes", "n")))
    with pytest.raises(errors.StatusError, match='nodes "n" not found') as caught:
        await client.get(NODES, "n")
    assert is_not_found(caught.value)
    assert not is_conflict(caught.value)


async def test_an_answer_without_a_status_is_an_error_all_the_same(client, transport):
    transport.on("GET /api/v1/nodes/n", Reply(502, b"<html>bad gateway"))
    with pytest.raises(errors.StatusError, match="502 to GET /api/v1/nodes/n: <html>bad gateway") as caught:
        await client.get(NODES, "n")
    assert caught.value.code == 502


async def test_an_answer_that_is_not_json_is_an_error(client, transport):
    transport.on("GET /api/v1/nodes/n", Reply(200, b"hello"))
    with pytest.raises(TransportError, match="not JSON"):
        await client.get(NODES, "n")


async def test_too_many_requests_waits_as_told(client, transport, clock):
    busy = failure(errors.too_many_requests("slow down", 3))
    transport.on("POST /api/v1/namespaces/default/pods", busy, busy, Reply(201, POD))
    task = asyncio.ensure_future(client.create(PODS, POD))
    await clock.advance(2.9)
    assert len(transport.requests) == 1
    await clock.advance(3.2)
    assert await task == POD


async def test_waiting_ends_after_ten_tries(client, transport, clock):
    transport.always("GET /api/v1/nodes/n", failure(errors.too_many_requests("slow down", 1)))
    task = asyncio.ensure_future(client.get(NODES, "n"))
    await clock.advance(60)
    assert len(transport.requests) == 11
    with pytest.raises(errors.StatusError, match="slow down"):
        await task


async def test_a_refusal_without_retry_after_is_final(client, transport):
    transport.on(
        "POST /api/v1/namespaces/default/pods/web/eviction", Reply(429, errors.make_status(429, "TooManyRequests", "no"))
    )
    with pytest.raises(errors.StatusError):
        await client.post_subresource(PODS, "web", "eviction", {}, "default")
    assert len(transport.requests) == 1


@pytest.mark.parametrize(("sent", "tries"), [(False, 4), (True, 1)], ids=["unsent", "sent"])
async def test_a_write_is_repeated_only_if_it_was_never_sent(client, transport, clock, sent, tries):
    transport.always("POST /api/v1/namespaces/default/pods", TransportError("refused", sent=sent))
    task = asyncio.ensure_future(client.create(PODS, POD))
    await clock.advance(10)
    with pytest.raises(TransportError, match="refused"):
        await task
    assert len(transport.requests) == tries


async def test_a_read_is_repeated_after_a_broken_connection(client, transport, clock):
    transport.on("GET /api/v1/nodes/n", TransportError("reset", sent=True), Reply(body={"kind": "Node"}))
    task = asyncio.ensure_future(client.get(NODES, "n"))
    await clock.advance(2)
    assert await task == {"kind": "Node"}


async def test_watch_yields_events_across_chunk_borders(client, transport):
    watch = FakeWatch()
    transport.on("WATCH /api/v1/pods", watch)
    lines = b"".join(orjson.dumps({"type": kind, "object": {"n": n}}) + b"\n" for n, kind in enumerate(["ADDED", "DELETED"]))
    for position in range(0, len(lines), 7):
        watch.send_bytes(lines[position : position + 7])
    watch.end()
    async with client.watch(PODS, resource_version="5", timeout_seconds=60, bookmarks=True) as events:
        assert [event async for event in events] == [("ADDED", {"n": 0}), ("DELETED", {"n": 1})]
    assert watch.closed
    path = transport.requests[0].path
    assert path == "/api/v1/pods?watch=true&resourceVersion=5&timeoutSeconds=60&allowWatchBookmarks=true"


async def test_an_error_event_follows_what_came_before_it(client, transport):
    watch, seen = FakeWatch(), []
    transport.on("WATCH /api/v1/pods", watch)

    async def read():
        async for event in client.watch(PODS):
            seen.append(event)  # noqa: PERF401 - what came before the error counts

    good = orjson.dumps({"type": "ADDED", "object": POD}) + b"\n"
    bad = orjson.dumps({"type": "ERROR", "object": errors.expired("too old resource version").status}) + b"\n"
    watch.send_bytes(good + bad)
    with pytest.raises(errors.StatusError, match="too old"):
        await read()
    assert seen == [("ADDED", POD)]
    assert watch.closed


async def test_a_malformed_event_is_an_error(client, transport):
    watch = FakeWatch()
    transport.on("WATCH /api/v1/pods", watch)
    watch.send_bytes(b'{"type": "ADDED"}\n')
    with pytest.raises(TransportError, match="malformed"):
        await anext(aiter(client.watch(PODS)))


async def test_raw_reads_any_path(client, transport):
    transport.on("GET /version", Reply(body=b"text"))
    assert await client.raw("GET", "/version", query={"a": "b"}) == b"text"
    assert transport.requests[0].path == "/version?a=b"
