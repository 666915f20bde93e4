"""Watches of custom resources while their definition changes: whoever lists and watches, as clients do, knows what is there."""

import asyncio
import contextlib
import json
import random
from typing import Any

import pytest

from tests.support.apiserver import TestServer, running_apiserver
from tests.support.custom import DEFINITIONS, SCHEMA, definition, established, gone, version, widget

Object = dict[str, Any]
ALL = "/apis/example.com/v1/widgets"
HERE = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"


async def test_a_watch_ends_when_the_spec_changes_and_goes_on_when_the_status_does(server: TestServer) -> None:
    await established(server, definition())
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with server.session.get(f"{server.url}{ALL}?watch=1", headers=headers, ssl=server.tls) as stream, asyncio.timeout(10):
        note = {"metadata": {"annotations": {"a": "b"}}}
        await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", note, content_type=MERGE)
        await server.request("POST", HERE, widget("a"))
        assert json.loads(await stream.content.readline())["object"]["metadata"]["name"] == "a"
        columns = [{"name": "X", "type": "string", "jsonPath": ".spec.color"}]
        spec = {"spec": {"versions": [version(additionalPrinterColumns=columns)]}}
        await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", spec, content_type=MERGE)
        assert await stream.content.read() == b""
    async with server.session.get(f"{server.url}{ALL}?watch=1", headers=headers, ssl=server.tls) as stream, asyncio.timeout(10):
        await server.request("DELETE", f"{DEFINITIONS}/widgets.example.com")
        assert json.loads(await stream.content.readline())["type"] == "ADDED"
        assert json.loads(await stream.content.readline())["type"] == "DELETED"
        assert await stream.content.read() == b""
    await gone(server, "widgets.example.com")


class Follower:
    """Lists and watches as an informer does, from the beginning whenever the watch ends."""

    def __init__(self, server: TestServer) -> None:
        self._server = server
        self.held: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ConnectionError, json.JSONDecodeError):
                await self._once()
            await asyncio.sleep(0.01)

    async def _once(self) -> None:
        listed = await self._server.request("GET", ALL)
        if listed.status != 200:
            self.held = {}
            return
        self.held = dict(map(_sized, listed.json["items"]))
        url = f"{self._server.url}{ALL}?watch=1&resourceVersion={listed.json['metadata']['resourceVersion']}"
        headers = {"Authorization": f"Bearer {self._server.admin_token}"}
        async with self._server.session.get(url, headers=headers, ssl=self._server.tls) as stream:
            while stream.status == 200 and (line := await stream.content.readline()):
                event = json.loads(line)
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    return
                name, size = _sized(event["object"])
                if event["type"] == "DELETED":
                    self.held.pop(name, None)
                else:
                    self.held[name] = size


def _sized(obj: Object) -> tuple[str, int]:
    return obj["metadata"]["name"], obj["spec"]["size"]


async def test_followers_agree_with_the_list_over_changes_of_the_definition() -> None:
    chance = random.Random(36)
    async with running_apiserver() as server:
        await established(server, definition())
        follower = Follower(server)
        following = asyncio.create_task(follower.run())
        try:
            for turn in range(90):
                await _change(server, chance, turn)
                if turn % 30 == 29:
                    await _agreed(server, follower)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


async def _change(server: TestServer, chance: random.Random, turn: int) -> None:
    name = f"w{chance.randrange(6)}"
    match chance.choice(["create", "create", "update", "update", "delete", "definition"]):
        case "create":
            await server.request("POST", HERE, widget(name, size=turn))
        case "update":
            await server.request("PATCH", f"{HERE}/{name}", {"spec": {"size": turn}}, content_type=MERGE)
        case "delete":
            await server.request("DELETE", f"{HERE}/{name}")
        case "definition" if chance.random() < 0.3:
            await server.request("DELETE", f"{DEFINITIONS}/widgets.example.com")
            await gone(server, "widgets.example.com")
            await established(server, definition())
        case _:
            spec = {"spec": {"versions": [version(deprecated=True, deprecationWarning=f"turn {turn}")]}}
            await server.request("PATCH", f"{DEFINITIONS}/widgets.example.com", spec, content_type=MERGE)


async def _agreed(server: TestServer, follower: Follower) -> None:
    wanted = dict(map(_sized, (await server.request("GET", ALL)).json["items"]))
    for _ in range(500):
        if follower.held == wanted:
            return
        await asyncio.sleep(0.01)
    assert follower.held == wanted


@pytest.mark.parametrize("alike", [True, False])
async def test_watchers_and_lists_of_each_version_see_the_same(server: TestServer, alike: bool) -> None:
    schema = (
        SCHEMA
        if alike
        else {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    )
    await established(server, definition("widgets", "Widget", version(), version("v2", storage=False, schema=schema)))
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(20):
        streams = []
        for name in ("v1", "v2", "v2"):
            url = f"{server.url}{HERE.replace('v1', name)}?watch=1"
            streams.append(await stack.enter_async_context(server.session.get(url, headers=headers, ssl=server.tls)))
        await server.request("POST", HERE, widget("a", size=1, color="blue"))
        seen = [json.loads(await stream.content.readline())["object"] for stream in streams]
        assert [obj["apiVersion"] for obj in seen] == ["example.com/v1", "example.com/v2", "example.com/v2"]
        assert [obj["spec"] for obj in seen[1:]] == [{"size": 1, "color": "blue"} if alike else {"size": 1}] * 2
    for _ in range(2):  # the second is answered from what the first made
        for obj in seen[:2]:
            path = HERE.replace("v1", obj["apiVersion"].removeprefix("example.com/"))
            assert (await server.request("GET", path)).json["items"] == [obj]
            assert (await server.request("GET", f"{path}/a")).json == obj
