"""Clients at random: writers that race for a few names, readers that list, watchers that go on where they were.

Each records what it was told in the shared ``History``. An outage is nothing to them: what got no answer is ``UNKNOWN``,
and they try something else.
"""

import asyncio
import contextlib
import json
import random
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.robustness.history import OK, REFUSED, History, Read, Seen, State, Watched, Write, key_of, revision_of, state_of

MAPS = "/api/v1/configmaps"
NAMES = ("alpha", "beta", "gamma", "delta")
NAMESPACES = ("default", "kube-public")
COLORS = ("red", "blue")
LAST = "the-end"  # the name of what is written last
_FINALIZER = "robustness.test/held"
LOST = (aiohttp.ClientError, ConnectionError, TimeoutError, asyncio.IncompleteReadError, ssl.SSLError)


@dataclass
class Target:
    """The API servers, up or not. Every request goes to one of them at random."""

    urls: list[str]
    token: str
    session: aiohttp.ClientSession
    history: History
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # no further writes and lists
    over: asyncio.Event = field(default_factory=asyncio.Event)  # watches need not wait for the end either
    choose: random.Random = field(default_factory=random.Random)

    @property
    def url(self) -> str:
        return self.choose.choice(self.urls)

    async def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, self.url + path, data=data, headers=headers) as answer:
            return answer.status, await answer.json()


class Writer:
    """One client that creates, updates, patches and deletes; it remembers what it has last seen of each object."""

    def __init__(self, target: Target, name: str, choose: random.Random) -> None:
        self._target, self._name, self._choose = target, name, choose
        self._known: dict[str, dict[str, Any]] = {}
        self._count = 0

    async def run(self) -> None:
        while not self._target.stopping.is_set():
            key = f"{self._choose.choice(NAMESPACES)}/{self._choose.choice(NAMES)}"
            try:
                await self._one(key)
            except LOST:
                await asyncio.sleep(0.02)

    async def _one(self, key: str) -> None:
        known = self._known.get(key)
        verb = (
            self._choose.choice(("update", "update", "patch", "delete", "look"))
            if known
            else self._choose.choice(("create", "look"))
        )
        if verb == "look":
            await self._look(key)
        else:
            await self.write(verb, key)

    async def _look(self, key: str) -> None:
        status, obj = await self._target.send("GET", path_of(key))
        if status == 200:
            self._known[key] = obj
        else:
            self._known.pop(key, None)

    async def write(self, verb: str, key: str) -> None:
        write = Write(verb, key, 0.0)
        method, path, body, kind = self._prepare(write)
        self._target.history.writes.append(write)
        write.started = time.monotonic()
        status, answer = await self._target.send(method, path, body, kind)
        if status >= 500 or status == 429:
            return  # nobody says what has become of it
        acknowledge(write, status, answer)
        self._known.pop(key, None)
        if write.state is not None and not (write.state.deleting and not write.state.held):
            self._known[key] = answer

    def _prepare(self, write: Write) -> tuple[str, str, Any, str]:
        known, choose, json_type = self._known.get(write.key), self._choose, "application/json"
        namespace, _, name = write.key.partition("/")
        if write.verb == "delete" and known is not None:
            write.uid = known["metadata"]["uid"] if choose.random() < 0.7 else ""
            options = {"preconditions": {"uid": write.uid}} if write.uid else {}
            return "DELETE", path_of(write.key), {"kind": "DeleteOptions", "apiVersion": "v1", **options}, json_type
        self._count += 1
        write.value = f"{self._name}-{self._count}"
        color = choose.choice(COLORS)
        held = [_FINALIZER] if choose.random() < 0.3 else []
        meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {"color": color}, "finalizers": held}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": write.value}}
        if write.verb == "create" or known is None:
            return "POST", f"/api/v1/namespaces/{namespace}/configmaps", body, json_type
        if known["metadata"].get("deletionTimestamp"):  # nothing new may hold it
            meta["finalizers"] = [one for one in held if one in known["metadata"].get("finalizers", [])]
        if write.verb == "update":
            write.expected = revision_of(known)
            meta["resourceVersion"] = str(write.expected)
            return "PUT", path_of(write.key), body, json_type
        changes = {"metadata": {"labels": {"color": color}}, "data": {"v": write.value}}
        return "PATCH", path_of(write.key), changes, "application/merge-patch+json"


def acknowledge(write: Write, status: int, answer: dict[str, Any]) -> None:
    """Note what a write was told."""
    write.ended, write.code = time.monotonic(), status
    write.outcome = OK if status < 300 else REFUSED
    if write.outcome == OK and answer["kind"] == "Status":
        write.uid = answer["details"]["uid"]
    elif write.outcome == OK:
        write.revision, write.state = revision_of(answer), state_of(answer)


def path_of(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


# --------------------------------------------------------------------------- reading


async def list_all(target: Target, limit: int = 0) -> Read:
    """Everything the clients may have made, at one revision."""
    started, objects, token, revision = time.monotonic(), {}, "", 0
    while True:
        status, page = await target.send("GET", f"{MAPS}?limit={limit}&continue={token}" if limit else MAPS)
        if status != 200:
            raise aiohttp.ClientError(f"a list was answered with {status}")
        revision = int(page["metadata"]["resourceVersion"])
        objects.update({key_of(obj): (revision_of(obj), state_of(obj)) for obj in page["items"] if _ours(obj)})
        token = page["metadata"].get("continue", "")
        if not token:
            return Read(started, time.monotonic(), revision, objects)


def _ours(obj: dict[str, Any]) -> bool:
    return "v" in (obj.get("data") or {})


async def read(target: Target, choose: random.Random) -> None:
    while not target.stopping.is_set():
        with contextlib.suppress(*LOST):
            target.history.reads.append(await list_all(target, choose.choice((0, 0, 2, 3))))
        await asyncio.sleep(0.1 + choose.random() * 0.3)


class Watcher:
    """Watches until it has seen LAST; taken up again where it was, also by its own choice now and then."""

    def __init__(self, target: Target, watched: Watched, choose: random.Random) -> None:
        self._target, self._watched, self._choose = target, watched, choose
        watched.reached = watched.start

    async def run(self) -> None:
        watched = self._watched
        while not watched.troubles and not self._target.over.is_set():
            with contextlib.suppress(*LOST):
                async with asyncio.timeout(0.5 + self._choose.random() * 4):
                    async for event in self._events():
                        if self._take(event):
                            return
            await asyncio.sleep(0.05)

    async def _events(self) -> AsyncIterator[dict[str, Any]]:
        watched = self._watched
        query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={watched.reached}"
        if watched.color:
            query += f"&labelSelector=color%3D{watched.color}"
        headers = {"Authorization": f"Bearer {self._target.token}"}
        async with self._target.session.get(self._target.url + MAPS + query, headers=headers) as answer:
            if answer.status != 200:
                raise aiohttp.ClientError(f"a watch was answered with {answer.status}")
            async for line in answer.content:
                yield json.loads(line)

    def _take(self, event: dict[str, Any]) -> bool:
        watched, obj = self._watched, event["object"]
        if event["type"] == "ERROR":
            watched.troubles.append(f"ended at {watched.reached} with {obj.get('code')}: {obj.get('message')}")
            return True
        revision = revision_of(obj)
        if event["type"] != "BOOKMARK" and _ours(obj):
            watched.events.append(Seen(event["type"], key_of(obj), revision, state_of(obj)))
        watched.reached = max(watched.reached, revision)
        return event["type"] != "BOOKMARK" and key_of(obj).startswith(f"default/{LAST}")


async def streaming_list(target: Target, name: str, color: str) -> Watched:
    """A watch that begins with the present state, as reflectors of today do; it is over when that has come."""
    query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    if color:
        query += f"&labelSelector=color%3D{color}"
    initial: dict[str, tuple[int, State]] = {}
    headers = {"Authorization": f"Bearer {target.token}"}
    async with target.session.get(target.url + MAPS + query, headers=headers) as answer:
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                start = revision_of(event["object"])
                return Watched(name, start, color, initial, reached=start)
            if _ours(event["object"]):
                initial[key_of(event["object"])] = (revision_of(event["object"]), state_of(event["object"]))
    raise aiohttp.ClientError("the stream ended early")


async def stream(target: Target, choose: random.Random) -> None:
    while not target.stopping.is_set():
        with contextlib.suppress(*LOST):
            target.history.watches.append(await streaming_list(target, "a streaming list", choose.choice(("", *COLORS))))
        await asyncio.sleep(0.2 + choose.random() * 0.5)
