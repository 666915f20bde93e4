"""The client room against the real API server in process: what scripted transports cannot show."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from apimachinery.errors import StatusError
from apimachinery.resources import CONFIG_MAPS, EVENTS, LEASES, NAMESPACES, PODS
from client import kubeconfig
from client.events import WARNING, Recorder
from client.informer import InformerFactory
from client.leaderelection import LeaderElector, Timing
from client.rest import APPLY, JSON, MERGE, STRATEGIC, Client, is_already_exists, is_conflict, is_not_found
from component.clock import RealClock
from controlplane.apiserver.config import Serving
from tests.support.apiserver import running_apiserver

QUICK = Timing(lease_duration=1.0, renew_deadline=0.6, retry_period=0.1)


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def until(condition, seconds=5.0):
    """Wait for real work elsewhere in this process; polling, since nothing tells when a cache has caught up."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - caches have no event for an outsider
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def cancelled_after(work):
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def server():
    async with running_apiserver() as server:
        yield server


@pytest.fixture
async def client(server):
    async with Client(kubeconfig.load(server.kubeconfig), component="test") as client:
        yield client


async def test_an_object_is_written_read_changed_and_deleted(client):
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert made["metadata"]["uid"]
    with pytest.raises(StatusError) as caught:
        await client.create(CONFIG_MAPS, config_map("a"))
    assert is_already_exists(caught.value)
    changed = await client.update(CONFIG_MAPS, {**made, "data": {"x": "2"}})
    with pytest.raises(StatusError) as caught:
        await client.update(CONFIG_MAPS, made)
    assert is_conflict(caught.value)
    assert (await client.get(CONFIG_MAPS, "a", "default"))["metadata"] == changed["metadata"]
    with pytest.raises(StatusError) as caught:
        await client.delete(CONFIG_MAPS, "a", "default", preconditions={"uid": "another"})
    assert is_conflict(caught.value)
    await client.delete(CONFIG_MAPS, "a", "default", preconditions={"uid": made["metadata"]["uid"]})
    with pytest.raises(StatusError) as caught:
        await client.get(CONFIG_MAPS, "a", "default")
    assert is_not_found(caught.value)


@pytest.mark.parametrize(
    ("kind", "body", "options"),
    [
        (MERGE, {"data": {"y": "2"}}, {}),
        (STRATEGIC, {"data": {"y": "2"}}, {}),
        (JSON, [{"op": "add", "path": "/data/y", "value": "2"}], {}),
        (APPLY, config_map("a", y="2"), {"field_manager": "me"}),
    ],
    ids=["merge", "strategic", "json", "apply"],
)
async def test_every_kind_of_patch_is_understood(client, kind, body, options):
    await client.create(CONFIG_MAPS, config_map("a", x="1"))
    patched = await client.patch(CONFIG_MAPS, "a", body, kind, "default", **options)
    assert patched["data"] == {"x": "1", "y": "2"}


async def test_lists_come_in_pages(client):
    for name in "abcde":
        await client.create(CONFIG_MAPS, config_map(name))
    first = await client.list(CONFIG_MAPS, "default", limit=2)
    assert [item["metadata"]["name"] for item in first["items"]][:1] == ["a"]
    names, token = [], None
    while True:
        page = await client.list(CONFIG_MAPS, "default", limit=2, continue_token=token)
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
    assert [name for name in names if len(name) == 1] == list("abcde")


async def test_an_informer_follows_what_others_do(client):
    factory, told = InformerFactory(client), []
    await client.create(CONFIG_MAPS, config_map("a", x="1"))
    informer = factory.informer(CONFIG_MAPS, "default", label_selector="!hidden")
    informer.add_handler(
        on_add=lambda new: told.append(("add", new["metadata"]["name"])),
        on_update=lambda old, new: told.append(("update", old["data"], new["data"])),
        on_delete=lambda old: told.append(("delete", old["metadata"]["name"])),
        where=lambda obj: len(obj["metadata"]["name"]) == 1,
    )
    async with cancelled_after(factory.run()):
        await factory.wait_synced(5)
        held = informer.lister.get("a", "default")
        assert (held["kind"], held["apiVersion"], held["data"]) == ("ConfigMap", "v1", {"x": "1"})
        assert "managedFields" not in held["metadata"]
        await client.create(CONFIG_MAPS, config_map("b"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace="default")
        await client.delete(CONFIG_MAPS, "b", "default")
        # an object that stops matching the selector leaves the informer
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"hidden": ""}}}, namespace="default")
        await until(lambda: len(told) == 5)
    assert told == [("add", "a"), ("add", "b"), ("update", {"x": "1"}, {"x": "2"}), ("delete", "b"), ("delete", "a")]


async def test_an_informer_outlives_its_server(tmp_path):
    async with running_apiserver("sqlite", tmp_path) as server:
        port = server.port
        config = kubeconfig.load(server.kubeconfig)
        client = Client(config, component="test")
        factory = InformerFactory(client)
        informer = factory.informer(CONFIG_MAPS, "default")
        run = asyncio.ensure_future(factory.run())
        await client.create(CONFIG_MAPS, config_map("a"))
        await until(lambda: informer.lister.get("a", "default"))
    async with running_apiserver("sqlite", tmp_path, serving=_on(server, port)):
        await client.create(CONFIG_MAPS, config_map("b"))
        await client.delete(CONFIG_MAPS, "a", "default")
        await until(lambda: informer.lister.get("b", "default") and not informer.lister.get("a", "default"), 15)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await client.close()


def _on(server, port):
    where = server.directory
    serving = Serving(where / "apiserver.crt", where / "apiserver.key", "127.0.0.1", port, advertise_address="127.0.0.1")
    return replace(serving, drain_seconds=1.0)


async def test_a_watch_ends_when_its_time_is_over(client):
    async with client.watch(CONFIG_MAPS, "default", timeout_seconds=1, resource_version="0") as events:
        kinds = [kind async for kind, _ in events]
    assert set(kinds) <= {"ADDED"}


async def test_two_candidates_have_one_leader_and_a_successor(client):
    leading = []

    def candidate(name):
        async def lead():
            leading.append(name)
            await asyncio.Event().wait()

        return LeaderElector(client, "demo", "default", identity=name, timing=QUICK).run(lead)

    async with cancelled_after(candidate("one")):
        await until(lambda: leading == ["one"])
        second = asyncio.ensure_future(candidate("two"))
        await asyncio.sleep(1.5)
        assert leading == ["one"]
    await until(lambda: leading == ["one", "two"])
    spec = (await client.get(LEASES, "demo", "default"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert (await client.get(LEASES, "demo", "default"))["spec"].get("holderIdentity", "") == ""


async def test_events_are_stored_and_folded(client):
    subject = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = Recorder(client, "tester", "node-1", clock=RealClock())
    async with cancelled_after(recorder.run()):
        for _ in range(2):
            recorder.event(subject, WARNING, "Odd", "something is odd", "Looking")

        async def folded():
            found = await client.list(EVENTS, "default")
            return [event for event in found["items"] if event.get("series", {}).get("count") == 2]

        async with asyncio.timeout(5):
            while not (events := await folded()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    [event] = events
    assert event["regarding"]["uid"] == subject["metadata"]["uid"]
    assert (event["reportingController"], event["reason"], event["type"]) == ("tester", "Odd", "Warning")
    core = await client.raw("GET", "/api/v1/namespaces/default/events")
    assert b'"message":"something is odd"' in core


async def test_a_missing_namespace_and_a_bad_object_are_told_apart(client):
    with pytest.raises(StatusError) as caught:
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}, "nowhere")
    assert caught.value.code in (404, 422)
    with pytest.raises(StatusError) as caught:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Bad_Name"}})
    assert caught.value.code == 422
    assert "metadata.name" in caught.value.message
