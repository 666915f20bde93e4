import asyncio
import random
from urllib.parse import parse_qs

import pytest

from apimachinery import errors
from apimachinery.resources import PODS
from client.fake import FAKE_CONFIG, FakeTransport, FakeWatch, Reply, failure
from client.reflector import Reflector, ResourceSource
from client.rest import Client
from client.transport import TransportError
from component.clock import FakeClock

LIST, WATCH = "GET /api/v1/pods", "WATCH /api/v1/pods"


def pod(name, version):
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}}


def pods(version, *items, more=None):
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return Reply(body={"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


class Held:
    """A sink that shows what it holds and how often it was replaced."""

    def __init__(self):
        self.objects, self.lists, self.kinds = {}, 0, []

    async def replace(self, objects):
        self.lists += 1
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}

    async def apply(self, events):
        for kind, obj in events:
            self.kinds.append(kind)
            if kind == "DELETED":
                self.objects.pop(obj["metadata"]["name"], None)
            else:
                self.objects[obj["metadata"]["name"]] = obj


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def transport():
    return FakeTransport()


@pytest.fixture
async def run(transport, clock):
    """Starts a reflector on the scripted transport; gives it and its sink."""
    tasks = []

    def start(page=500, **how):
        sink = Held()
        client = Client(FAKE_CONFIG, clock=clock, transport=transport)
        reflector = Reflector("pods", ResourceSource(client, PODS), sink, clock, random.Random(1), page, **how)
        tasks.append(asyncio.ensure_future(reflector.run()))
        return reflector, sink

    yield start
    for task in tasks:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def queries(transport, what):
    return [
        {key: values[0] for key, values in parse_qs(request.path.partition("?")[2]).items()} for request in transport.asked(what)
    ]


def versions(transport, what):
    return [query.get("resourceVersion") for query in queries(transport, what)]


async def test_who_takes_over_begins_with_the_latest_page_by_page(run, transport, clock):
    """A server that lags behind must not show a new leader the time before the old one's last deeds."""
    transport.on(LIST, pods(5, pod("a", 3), more="more"), pods(5, pod("b", 4)))
    transport.on(WATCH, FakeWatch())
    _, sink = run(latest=True)
    await clock.settle()
    assert sorted(sink.objects) == ["a", "b"]
    assert versions(transport, LIST) == [None, None]
    assert [query.get("continue") for query in queries(transport, LIST)] == [None, "more"]
    assert versions(transport, WATCH) == ["5"]


async def test_it_lists_from_any_version_and_watches_from_the_lists(run, transport, clock):
    watch = FakeWatch()
    transport.on(LIST, pods(5, pod("a", 3)))
    transport.on(WATCH, watch)
    reflector, sink = run()
    await clock.settle()
    assert sink.objects["a"]["kind"] == "Pod"
    assert versions(transport, LIST) == ["0"]
    assert versions(transport, WATCH) == ["5"]
    assert queries(transport, WATCH)[0]["allowWatchBookmarks"] == "true"
    assert 300 <= int(queries(transport, WATCH)[0]["timeoutSeconds"]) <= 600
    watch.send("ADDED", pod("b", 6))
    watch.send("DELETED", pod("a", 7))
    await clock.settle()
    assert list(sink.objects) == ["b"]
    assert reflector.resource_version == "7"


async def test_a_watch_that_ends_is_taken_up_from_the_last_bookmark(run, transport, clock):
    first, second = FakeWatch(), FakeWatch()
    transport.on(LIST, pods(5))
    transport.on(WATCH, first, second)
    _, sink = run()
    await clock.settle()
    first.send("BOOKMARK", pod("", 90))
    await clock.advance(300)
    first.end()
    await clock.advance(2)
    assert versions(transport, WATCH) == ["5", "90"]
    assert sink.lists == 1
    assert sink.kinds == []
    assert first.closed


async def test_a_dropped_watch_is_taken_up_without_a_list(run, transport, clock):
    first, second = FakeWatch(), FakeWatch()
    transport.on(LIST, pods(5))
    transport.on(WATCH, first, second)
    _, sink = run()
    await clock.settle()
    first.send("ADDED", pod("a", 6))
    first.drop()
    await clock.advance(1)
    assert versions(transport, WATCH) == ["5", "6"]
    assert sink.lists == 1


@pytest.mark.parametrize("how", ["event", "answer"])
async def test_an_expired_watch_leads_to_a_list(run, transport, clock, how):
    gone = errors.expired("too old resource version: 5 (100)")
    first, second = FakeWatch(), FakeWatch()
    transport.on(LIST, pods(5, pod("a", 3)), pods(100, pod("b", 99)))
    transport.on(WATCH, first if how == "event" else failure(gone), second)
    first.send_error(gone)
    _, sink = run()
    await clock.advance(3)
    assert list(sink.objects) == ["b"]
    assert versions(transport, LIST) == ["0", "5"]
    assert versions(transport, WATCH) == ["5", "100"]


@pytest.mark.parametrize(
    "refusal",
    [
        errors.expired("the provided resource version is too old"),
        errors.StatusError(
            errors.make_status(
                504,
                "Timeout",
                "Timeout: Too large resource version: 5, current: 1",
                {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
            ),
            {"Retry-After": "1"},
        ),
    ],
    ids=["too-old", "too-large"],
)
async def test_a_version_the_server_does_not_know_leads_to_a_list_of_the_latest(run, transport, clock, refusal):
    watch = FakeWatch()
    transport.on(LIST, pods(5, pod("a", 3)), failure(refusal), pods(1, pod("b", 1)))
    transport.on(WATCH, failure(errors.expired("gone")), watch)
    _, sink = run()
    await clock.advance(3)
    assert versions(transport, LIST) == ["0", "5", None] or versions(transport, LIST) == ["0", "5", ""]
    assert list(sink.objects) == ["b"]
    assert versions(transport, WATCH) == ["5", "1"]


async def test_lists_of_the_latest_come_in_pages(run, transport, clock):
    transport.on(LIST, failure(errors.expired("gone")), pods(7, pod("a", 1), more="next"), pods(7, pod("b", 2)))
    transport.on(WATCH, FakeWatch())
    _, sink = run(page=1)
    await clock.settle()
    assert list(sink.objects) == ["a", "b"]
    asked = queries(transport, LIST)
    assert [query.get("limit") for query in asked] == [None, "1", "1"]
    assert asked[2]["continue"] == "next"


async def test_pages_that_expire_on_the_way_fall_back_to_one_list(run, transport, clock):
    gone = failure(errors.expired("continue token is too old"))
    transport.on(LIST, gone, pods(7, pod("a", 1), more="next"), gone, pods(8, pod("a", 1), pod("b", 2)))
    transport.on(WATCH, FakeWatch())
    _, sink = run(page=1)
    await clock.settle()
    assert list(sink.objects) == ["a", "b"]
    assert versions(transport, WATCH) == ["8"]


async def test_failing_lists_are_repeated_with_growing_pauses(run, transport, clock):
    transport.always(LIST, failure(errors.forbidden("no")))
    run()
    await clock.advance(60)
    count = len(transport.asked(LIST))
    assert 6 <= count <= 20
    transport.always(LIST, pods(1, pod("a", 1)))
    transport.on(WATCH, FakeWatch())
    await clock.advance(20)
    assert len(transport.asked(LIST)) == count + 1


async def test_a_server_that_comes_back_is_watched_from_where_it_left(run, transport, clock):
    first, second = FakeWatch(), FakeWatch()
    transport.on(LIST, pods(5))
    refused = TransportError("connection refused", sent=False)
    transport.on(WATCH, first, *[refused] * 8, second)
    _, sink = run()
    await clock.settle()
    first.drop()
    await clock.advance(30)
    assert sink.lists == 1
    second.send("ADDED", pod("a", 9))
    await clock.settle()
    assert list(sink.objects) == ["a"]


async def test_watches_that_end_at_once_do_not_spin(run, transport, clock):
    transport.on(LIST, pods(5))

    def ended(request):
        watch = FakeWatch()
        watch.end()
        return watch

    transport.always(WATCH, ended)
    run()
    await clock.advance(60)
    assert len(transport.asked(WATCH)) < 20


async def test_an_overloaded_server_is_left_alone_for_a_while(run, transport, clock):
    transport.on(LIST, pods(5))
    transport.on(WATCH, Reply(429, errors.make_status(429, "TooManyRequests", "busy")), FakeWatch())
    _, sink = run()
    await clock.advance(2)
    assert sink.lists == 1
    assert versions(transport, WATCH) == ["5", "5"]
