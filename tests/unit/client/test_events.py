import asyncio

import orjson
import pytest

from apimachinery import errors
from client.events import NORMAL, WARNING, Recorder, reference
from client.fake import FAKE_CONFIG, FakeTransport, Reply, failure
from client.rest import Client
from client.transport import TransportError
from component.clock import FakeClock
from component.metrics import Registry

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}}
CREATE = "POST /apis/events.k8s.io/v1/namespaces/ns/events"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def transport():
    transport = FakeTransport()
    transport.always(CREATE, Reply(201, {}))
    return transport


@pytest.fixture
def registry():
    return Registry(process=False)


@pytest.fixture
async def recorder(transport, clock, registry):
    client = Client(FAKE_CONFIG, clock=clock, transport=transport)
    recorder = Recorder(client, "kubelet", "node-1", metrics=registry, queue_size=10)
    task = asyncio.ensure_future(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def bodies(transport):
    return [orjson.loads(request.body) for request in transport.requests]


def patches(transport):
    return [orjson.loads(request.body)["series"]["count"] for request in transport.requests if request.method == "PATCH"]


def accept_patches(transport):
    name = orjson.loads(transport.requests[0].body)["metadata"]["name"]
    transport.always(f"PATCH /apis/events.k8s.io/v1/namespaces/ns/events/{name}", Reply(body={}))


async def test_an_event_says_who_what_and_when(recorder, transport, clock):
    recorder.event(POD, NORMAL, "Started", "Container started", "Starting", related={"kind": "Node", "name": "n"})
    await clock.settle()
    [event] = bodies(transport)
    assert event["regarding"] == {"kind": "Pod", "namespace": "ns", "name": "web", "uid": "u", "apiVersion": "v1"}
    assert event["related"] == {"kind": "Node", "name": "n"}
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert (event["reportingController"], event["reportingInstance"]) == ("kubelet", "node-1")
    assert (event["action"], event["reason"], event["type"]) == ("Starting", "Started", "Normal")
    assert event["note"] == "Container started"
    assert event["metadata"]["name"].startswith("web.")


async def test_events_of_cluster_scoped_objects_live_in_default(recorder, transport, clock):
    transport.always("POST /apis/events.k8s.io/v1/namespaces/default/events", Reply(201, {}))
    recorder.event({"kind": "Node", "metadata": {"name": "n"}}, WARNING, "NotReady", "gone")
    await clock.settle()
    assert bodies(transport)[0]["metadata"]["namespace"] == "default"
    assert bodies(transport)[0]["action"] == "NotReady"


async def test_a_repeat_becomes_a_series(recorder, transport, clock):
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.advance(10)
    accept_patches(transport)
    for _ in range(3):
        recorder.event(POD, WARNING, "BackOff", "again")
        await clock.advance(10)
    assert len(transport.asked(CREATE)) == 1
    assert patches(transport) == [2, 3, 4]


async def test_a_burst_is_counted_in_one_patch(recorder, transport, clock):
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.settle()
    accept_patches(transport)
    for _ in range(4):
        recorder.event(POD, WARNING, "BackOff", "again")
        await clock.advance(1)
    await clock.advance(10)
    assert patches(transport) == [2, 5]


async def test_a_repeat_after_six_minutes_is_a_new_event(recorder, transport, clock):
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.advance(361)
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.settle()
    assert len(transport.asked(CREATE)) == 2
    assert len({body["metadata"]["name"] for body in bodies(transport)}) == 2


async def test_different_notes_are_different_events(recorder, transport, clock):
    for note in ("one", "two"):
        recorder.event(POD, NORMAL, "Pulled", note)
    await clock.settle()
    assert [body["note"] for body in bodies(transport)] == ["one", "two"]


async def test_a_series_that_expired_begins_anew(recorder, transport, clock):
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.advance(10)
    name = bodies(transport)[0]["metadata"]["name"]
    transport.on(f"PATCH /apis/events.k8s.io/v1/namespaces/ns/events/{name}", failure(errors.not_found("events", name)))
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.settle()
    assert len(transport.asked(CREATE)) == 2


async def test_a_series_that_could_not_be_written_is_written_later_with_the_right_count(recorder, transport, clock):
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.advance(10)
    name = bodies(transport)[0]["metadata"]["name"]
    transport.on(f"PATCH /apis/events.k8s.io/v1/namespaces/ns/events/{name}", failure(errors.internal("no")), Reply(body={}))
    recorder.event(POD, WARNING, "BackOff", "again")
    await clock.advance(20)
    assert patches(transport) == [2, 2]


async def test_a_full_queue_drops_and_counts_without_waiting(recorder, clock, registry):
    for number in range(13):
        recorder.event(POD, NORMAL, "Pulled", str(number))
    await clock.settle()
    assert "event_recorder_dropped_total 3.0" in registry.expose().decode()


async def test_an_unreachable_server_is_tried_again(recorder, transport, clock):
    transport.on(CREATE, *[TransportError("refused", sent=False)] * 8, Reply(201, {}))
    recorder.event(POD, NORMAL, "Pulled", "x")
    await clock.advance(60)
    assert len(transport.asked(CREATE)) == 9


async def test_a_refused_event_is_dropped(recorder, transport, clock, registry):
    transport.on(CREATE, failure(errors.forbidden("namespace ns is being terminated")))
    recorder.event(POD, NORMAL, "Killing", "x")
    recorder.event(POD, NORMAL, "Next", "y")
    await clock.settle()
    assert [body["reason"] for body in bodies(transport)] == ["Killing", "Next"]
    assert "event_recorder_dropped_total 1.0" in registry.expose().decode()


async def test_long_notes_are_cut_to_what_the_server_takes(recorder, transport, clock):
    recorder.event(POD, NORMAL, "Pulled", "ä" * 1000)
    await clock.settle()
    note = bodies(transport)[0]["note"]
    assert len(note.encode()) <= 1024
    assert note.endswith("...")


def test_references_are_kept():
    ref = {"kind": "Pod", "name": "x", "fieldPath": "spec.containers{a}"}
    assert reference(ref) is ref


async def test_components_of_a_daemon_share_one_queue(recorder, transport, clock):
    other = recorder.named("probes")
    recorder.event(POD, NORMAL, "Pulled", "x")
    other.event(POD, NORMAL, "Pulled", "y")
    await clock.settle()
    assert [body["reportingController"] for body in bodies(transport)] == ["kubelet", "probes"]
    assert len({body["metadata"]["name"] for body in bodies(transport)}) == 2
