"""The reads behind an explanation: few, side by side, in pages, without secrets, and content with what may be read."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apimachinery.errors import StatusError, forbidden, not_found
from apimachinery.meta import Object
from apimachinery.resources import PODS
from client.fake import FAKE_CONFIG, Reply, failure
from client.rest import Client
from client.transport import Request
from tests.support.explanations import pod
from why import reading
from why.catalog import explain
from why.cause import State
from why.kinds import KINDS, NEEDS

POD_PATH = "/api/v1/namespaces/shop/pods/web"


class Server:
    """Answers lists with nothing and objects as told; keeps what was asked for."""

    def __init__(self, **answers: Callable[[Request], Reply]) -> None:
        self.requests: list[Request] = []
        self.answers = answers

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        path = urlsplit(request.path).path
        answer = self.answers.get(path.rsplit("/", 1)[-1])
        return answer(request) if answer else Reply(body={"kind": "List", "items": [], "metadata": {}})

    async def close(self) -> None:
        return

    def asked(self, end: str) -> list[Request]:
        return [each for each in self.requests if urlsplit(each.path).path.endswith(end)]


async def ask(server: Server, name: str = "web") -> Any:
    client = Client(FAKE_CONFIG, transport=server)  # type: ignore[arg-type]
    return await reading.around(client, PODS, "Pod", name, "shop")


def shows(subject: Object) -> Callable[[Request], Reply]:
    return lambda request: Reply(body=subject)


async def test_a_running_pod_costs_one_round_of_reads_without_the_data_of_secrets() -> None:
    server = Server(web=shows(pod(ready=True)))

    snapshot, found = await ask(server)

    assert explain(snapshot, found).state is State.WELL
    assert len(server.requests) == 1 + len(NEEDS["Pod"])
    assert {request.method for request in server.requests} == {"GET"}
    for end in ("secrets", "configmaps"):
        assert "PartialObjectMetadataList" in server.asked(end)[0].headers["Accept"]
    lists = [each for each in server.requests if not each.path.startswith(POD_PATH)]
    assert {parse_qs(urlsplit(each.path).query)["limit"][0] for each in lists} == {"500"}


async def test_only_a_pod_without_a_node_is_worth_a_look_at_all_pods() -> None:
    server = Server(web=shows(pod(node="")))

    snapshot, _ = await ask(server)

    assert snapshot.covers("Pod")
    assert [urlsplit(each.path).path for each in server.asked("/pods")] == ["/api/v1/namespaces/shop/pods", "/api/v1/pods"]
    assert not server.asked("/log")


async def test_pages_are_followed_to_their_end() -> None:
    def pods(request: Request) -> Reply:
        first = "continue" not in parse_qs(urlsplit(request.path).query)
        name, token = ("a", "more") if first else ("b", "")
        return Reply(body={"items": [pod(name)], "metadata": {"continue": token}})

    snapshot, _ = await ask(Server(web=shows(pod(ready=True)), pods=pods))

    assert {each["metadata"]["name"] for each in snapshot.all("Pod", "shop")} == {"web", "a", "b"}
    assert snapshot.covers("Pod", "shop")


async def test_a_collection_without_end_is_given_up_and_said_so() -> None:
    endless = Server(web=shows(pod(ready=True)), pods=lambda request: Reply(body={"items": [], "metadata": {"continue": "x"}}))

    snapshot, _ = await ask(endless)

    assert not snapshot.covers("Pod", "shop")
    assert "pods in shop: only the first 20000 were read" in reading.notes(snapshot)


async def test_what_may_not_be_read_is_a_note_and_what_is_not_served_is_empty() -> None:
    refused = Server(
        web=shows(pod(ready=True)),
        nodes=lambda request: failure(forbidden("no")),
        runtimeclasses=lambda request: failure(not_found("runtimeclasses", "")),
    )

    snapshot, _ = await ask(refused)

    assert reading.notes(snapshot) == ["nodes may not be read"]
    assert not snapshot.covers("Node")
    assert snapshot.covers("RuntimeClass")


async def test_an_object_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StatusError):
        await ask(Server(web=lambda request: failure(not_found("pods", "web"))))


async def test_the_log_of_a_crash_is_read_to_a_bound() -> None:
    crashing = pod(state={"waiting": {"reason": "CrashLoopBackOff"}})

    snapshot, _ = await ask(Server(web=shows(crashing), log=lambda request: Reply(body=b"bye\n")))

    assert snapshot.logs == {("shop", "web", "c"): "bye\n"}


def test_every_kind_that_is_needed_is_known() -> None:
    assert {each for needs in NEEDS.values() for each in needs} | set(NEEDS) <= set(KINDS)
