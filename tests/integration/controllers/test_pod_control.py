"""Pods are made once, though the server that made them dies before it has answered."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apimachinery.errors import StatusError
from apimachinery.meta import Object, name_of, owner_reference, uid_of
from apimachinery.resources import PODS, REPLICA_SETS, SERVICE_ACCOUNTS
from client.kubeconfig import load
from client.rest import Client
from client.transport import Request, Response, TransportError
from controlplane.controllers.lib.pod_control import TRIES, PodControl, from_template
from tests.support.apiserver import running_apiserver

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
}


class Recorder:
    """Takes events, and forgets all but their reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def event(self, regarding: Any, kind: str, reason: str, note: str, action: str) -> None:
        self.reasons.append(reason)


class Losing:
    """A connection on which some answers get lost: of the pods made, those for which ``lost`` says so."""

    def __init__(self, inner: Any, lost: list[bool]) -> None:
        self._inner, self._lost = inner, deque(lost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, request: Request) -> Response:
        answer: Response = await self._inner.send(request)
        if request.method == "POST" and request.path.split("?")[0].endswith("/pods") and self._lost and self._lost.popleft():
            await answer.read()
            raise TransportError("the server went away", sent=True)
        return answer


@asynccontextmanager
async def a_set() -> AsyncIterator[tuple[Client, Object]]:
    """A client of a new server, and a ReplicaSet there whose pods may be made."""
    async with running_apiserver() as server, Client(load(server.kubeconfig)) as client:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await client.create(SERVICE_ACCOUNTS, account, "default")
        yield client, await client.create(REPLICA_SETS, OWNER, "default")


@pytest.mark.parametrize("lost", [[], [True], [True, True, True]])
async def test_an_answer_that_is_lost_makes_no_second_pod(lost: list[bool]) -> None:
    async with a_set() as (client, owner):
        client._transport = Losing(client._transport, lost)
        recorder = Recorder()
        pod = from_template(TEMPLATE, "default", "web-", owner_reference(owner, "apps/v1", "ReplicaSet"))
        made = await PodControl(client, recorder).create(owner, pod)  # type: ignore[arg-type]
        found = (await client.list(PODS, "default"))["items"]
        assert [uid_of(each) for each in found] == [uid_of(made)]
        assert name_of(made).startswith("web-")
        assert made["metadata"]["generateName"] == "web-"
        assert recorder.reasons == ["SuccessfulCreate"]


async def test_nobody_answers() -> None:
    async with a_set() as (client, owner):
        client._transport = Losing(client._transport, [True] * TRIES)
        pod = from_template(TEMPLATE, "default", "web-", owner_reference(owner, "apps/v1", "ReplicaSet"))
        with pytest.raises(ConnectionError):
            await PodControl(client, Recorder()).create(owner, pod)  # type: ignore[arg-type]
        assert len((await client.list(PODS, "default"))["items"]) == 1


async def test_a_name_that_is_somebody_elses() -> None:
    async with a_set() as (client, owner):
        theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": TEMPLATE["spec"]}
        await client.create(PODS, theirs, "default")
        pod = from_template(TEMPLATE, "default", "web-", owner_reference(owner, "apps/v1", "ReplicaSet"))
        pod["metadata"]["name"] = "web-0"
        with pytest.raises(StatusError) as refused:
            await PodControl(client, Recorder()).create(owner, pod)  # type: ignore[arg-type]
        assert refused.value.reason == "AlreadyExists"
