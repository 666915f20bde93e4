import asyncio

import pytest

from apimachinery.resources import NODES, PODS
from client.fake import FAKE_CONFIG, FakeTransport, FakeWatch, Reply
from client.informer import Informer, InformerFactory
from client.rest import Client
from component.clock import FakeClock


def pod(name, version=1, uid=None, **labels):
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version), "uid": uid or name, "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


class Heard:
    """A handler that writes down what it was told."""

    def __init__(self, informer, where=None):
        self.told = []
        informer.add_handler(
            on_add=lambda new: self.told.append(("add", self.show(new))),
            on_update=lambda old, new: self.told.append(("update", self.show(old), self.show(new))),
            on_delete=lambda old: self.told.append(("delete", self.show(old))),
            where=where,
        )

    def show(self, obj):
        return f"{obj['metadata']['name']}{obj['metadata']['resourceVersion']}"

    def take(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def informer():
    return Informer("pods")


async def test_handlers_hear_of_lists_and_changes(informer):
    heard = Heard(informer)
    assert not informer.has_synced
    await informer.replace([pod("a"), pod("b")])
    assert informer.has_synced
    assert heard.take() == [("add", "a1"), ("add", "b1")]
    await informer.apply([("MODIFIED", pod("a", 2)), ("DELETED", pod("b", 3)), ("ADDED", pod("c", 4))])
    assert heard.take() == [("update", "a1", "a2"), ("delete", "b3"), ("add", "c4")]
    assert informer.lister.get("c", "ns") is not None


async def test_a_new_list_tells_only_what_differs(informer):
    await informer.replace([pod("a"), pod("b"), pod("c")])
    heard = Heard(informer)
    heard.take()
    await informer.replace([pod("a"), pod("b", 5), pod("d", 6)])
    assert heard.take() == [("delete", "c1"), ("update", "b1", "b5"), ("add", "d6")]


async def test_a_late_handler_hears_of_what_is_held(informer):
    await informer.replace([pod("a")])
    assert Heard(informer).take() == [("add", "a1")]


async def test_an_object_made_again_is_a_deletion_and_an_addition(informer):
    await informer.replace([pod("a", 1, "u1")])
    heard = Heard(informer)
    heard.take()
    await informer.apply([("MODIFIED", pod("a", 9, "u2"))])
    assert heard.take() == [("delete", "a1"), ("add", "a9")]


async def test_a_narrowed_handler_hears_objects_come_into_view_and_leave(informer):
    heard = Heard(informer, where=lambda obj: obj["metadata"]["labels"].get("app") == "x")
    await informer.replace([pod("a"), pod("b", app="x")])
    assert heard.take() == [("add", "b1")]
    await informer.apply([("MODIFIED", pod("a", 2, app="x")), ("MODIFIED", pod("b", 3))])
    assert heard.take() == [("add", "a2"), ("delete", "b1")]


async def test_a_failing_handler_harms_nobody_else(informer):
    def fail(obj):
        raise RuntimeError("broken")

    informer.add_handler(on_add=fail)
    heard = Heard(informer)
    await informer.replace([pod("a")])
    assert heard.take() == [("add", "a1")]
    assert informer.has_synced


async def test_deletion_of_the_unknown_is_silent(informer):
    heard = Heard(informer)
    await informer.replace([])
    await informer.apply([("DELETED", pod("a"))])
    assert heard.take() == []


async def test_field_ownership_is_dropped_by_default(informer):
    obj = pod("a")
    obj["metadata"]["managedFields"] = [{"manager": "x"}]
    await informer.replace([obj])
    assert "managedFields" not in informer.lister.get("a", "ns")["metadata"]


async def test_long_lists_give_other_tasks_a_turn(informer):
    turns = 0

    async def other():
        nonlocal turns
        while not informer.has_synced:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    await asyncio.sleep(0)
    await informer.replace([pod(str(number)) for number in range(1000)])
    await task
    assert turns >= 5


@pytest.fixture
def transport():
    transport = FakeTransport()
    for path, kind in (("/api/v1/pods", "Pod"), ("/api/v1/nodes", "Node")):
        items = [{"metadata": {"name": "a", "resourceVersion": "1"}}]
        body = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
        transport.always(f"GET {path}", Reply(body=body))
        transport.always(f"WATCH {path}", lambda request: FakeWatch())
    return transport


@pytest.fixture
def factory(transport):
    return InformerFactory(Client(FAKE_CONFIG, clock=FakeClock(), transport=transport))


async def test_one_selection_has_one_informer(factory):
    assert factory.informer(PODS) is factory.informer(PODS)
    assert factory.informer(PODS) is not factory.informer(PODS, "ns")
    assert factory.informer(PODS) is not factory.informer(PODS, field_selector="spec.nodeName=n")


async def test_the_factory_runs_all_also_late_comers(factory, transport):
    pods = factory.informer(PODS)
    running = asyncio.ensure_future(factory.run())
    await factory.wait_synced()
    assert pods.lister.get("a")["kind"] == "Pod"
    nodes = factory.informer(NODES)
    await factory.wait_synced()
    assert nodes.has_synced
    factory.remove(NODES)
    await asyncio.sleep(0.01)
    assert factory.informer(NODES) is not nodes
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_waiting_in_vain_names_who_is_late(transport):
    clock = FakeClock()
    factory = InformerFactory(Client(FAKE_CONFIG, clock=clock, transport=transport))
    factory.informer(PODS)
    waiting = asyncio.ensure_future(factory.wait_synced(30))
    await clock.advance(31)
    with pytest.raises(TimeoutError, match="no first list within 30 s of: pods"):
        await waiting
