"""Which state a LIST shows and which WATCHes are refused: the tables of upstream's "API concepts", line by line.

https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions; the refusals are those of ``ValidateListOptions``
(apimachinery ``pkg/apis/meta/internalversion/validation``). In the queries ``{early}`` is a version before the changes that
``history`` makes, ``{now}`` one after them, ``{future}`` one that is not yet.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.support.apiserver import TestServer, running_apiserver

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
EARLY, NOW = ["m0", "m1", "m2", "m3"], ["m1", "m2", "m3", "m4"]


class History:
    """A server in which m0 to m3 were made, then m0 deleted and m4 made."""

    def __init__(self, server: TestServer, early: int, now: int) -> None:
        self.server, self.early, self.now = server, early, now

    def path(self, query: str) -> str:
        return f"{MAPS}?{query.format(early=self.early, now=self.now, future=self.now + 1000)}"


async def make(server: TestServer, name: str, **more: Any) -> int:
    meta = {"name": name, **more}
    made = await server.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    assert made.status == 201, made.json
    return int(made.json["metadata"]["resourceVersion"])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def history() -> AsyncIterator[History]:
    async with running_apiserver() as server:
        for name in EARLY:
            early = await make(server, name)
        await server.request("DELETE", f"{MAPS}/m0")
        yield History(server, early, await make(server, "m4"))


SHOWN: list[tuple[str, list[str]]] = [
    # neither limit nor match
    ("", NOW),
    ("resourceVersion=", NOW),
    ("resourceVersion=0", NOW),
    ("resourceVersion={early}", NOW),
    # limit
    ("limit=2", NOW[:2]),
    ("limit=2&resourceVersion={early}", EARLY[:2]),
    ("limit=0", NOW),
    ("limit=-1", NOW),
    ("limit=500", NOW),
    # match
    ("resourceVersionMatch=Exact&resourceVersion={early}", EARLY),
    ("resourceVersionMatch=Exact&resourceVersion={now}", NOW),
    ("resourceVersionMatch=NotOlderThan&resourceVersion={early}", NOW),
    ("resourceVersionMatch=NotOlderThan&resourceVersion=0", NOW),
    # limit and match
    ("limit=2&resourceVersionMatch=Exact&resourceVersion={early}", EARLY[:2]),
    ("limit=2&resourceVersionMatch=NotOlderThan&resourceVersion={early}", NOW[:2]),
]


@pytest.mark.parametrize(("query", "names"), SHOWN)
async def test_lists_show(history: History, query: str, names: list[str]) -> None:
    answer = await history.server.request("GET", history.path(query))
    assert answer.status == 200, answer.json
    assert [item["metadata"]["name"] for item in answer.json["items"]] == names
    version = int(answer.json["metadata"]["resourceVersion"])
    assert version == history.early if names[0] == "m0" else version >= history.now
    left = len(EARLY if names[0] == "m0" else NOW) - len(names)
    assert answer.json["metadata"].get("remainingItemCount", 0) == left
    assert bool(answer.json["metadata"].get("continue")) == bool(left)


REFUSED: list[tuple[str, int, str]] = [
    (
        "resourceVersionMatch=Exact",
        422,
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    ("resourceVersionMatch=NotOlderThan", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
    (
        "resourceVersionMatch=Exact&resourceVersion=0",
        422,
        'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    (
        "resourceVersionMatch=Newest&resourceVersion={now}",
        422,
        'resourceVersionMatch: Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""',
    ),
    (
        "resourceVersionMatch=Exact&resourceVersion={now}&continue=x",
        422,
        "resourceVersionMatch is forbidden when continue is provided",
    ),
    ("sendInitialEvents=true", 422, "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
    ("resourceVersion=abc", 400, "Invalid value"),
    ("resourceVersion=-1", 400, "Invalid value"),
    ("continue=abc", 400, "continue key is not valid"),
    ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("labelSelector=a%20in%20(", 400, "unable to parse requirement"),
    ("fieldSelector=data=x", 400, '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'),
]


@pytest.mark.parametrize(("query", "code", "text"), REFUSED)
async def test_lists_are_refused(history: History, query: str, code: int, text: str) -> None:
    answer = await history.server.request("GET", history.path(query))
    assert (answer.status, answer.json["code"]) == (code, code), answer.json
    assert text in answer.json["message"]


async def test_what_is_yet_to_come_is_waited_for_and_given_up(history: History) -> None:
    """Three seconds long; at once, as they only wait."""
    queries = [
        "resourceVersion={future}&resourceVersionMatch=Exact",
        "resourceVersion={future}",
        "resourceVersion={future}&limit=2",
    ]
    for answer in await asyncio.gather(*(history.server.request("GET", history.path(query)) for query in queries)):
        assert (answer.status, answer.json["reason"]) == (504, "Timeout"), answer.json
        assert "Too large resource version" in answer.json["message"]
        assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        assert answer.json["details"]["retryAfterSeconds"] == 1


async def test_a_token_and_a_version_exclude_each_other(history: History) -> None:
    token = (await history.server.request("GET", history.path("limit=2"))).json["metadata"]["continue"]
    answer = await history.server.request("GET", history.path(f"limit=2&continue={quote(token)}&resourceVersion={{now}}"))
    assert (answer.status, answer.json["message"]) == (400, "specifying resource version is not allowed when using continue")
    zero = await history.server.request("GET", history.path(f"limit=2&continue={quote(token)}&resourceVersion=0"))
    assert [item["metadata"]["name"] for item in zero.json["items"]] == NOW[2:]


async def test_pages_show_the_state_of_the_first(history: History) -> None:
    first = (await history.server.request("GET", history.path("limit=2&resourceVersion={early}&resourceVersionMatch=Exact"))).json
    second = (await history.server.request("GET", history.path(f"limit=2&continue={quote(first['metadata']['continue'])}"))).json
    assert [item["metadata"]["name"] for item in second["items"]] == EARLY[2:]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_a_token_leads_nowhere_else(history: History) -> None:
    """A token made by hand cannot leave the collection."""
    for start in ("../../secrets/default/\0", "/\0", "kube-system/\0"):
        forged = base64.urlsafe_b64encode(
            json.dumps({"v": "meta.k8s.io/v1", "rv": history.now, "start": start}).encode()
        ).decode()
        answer = await history.server.request("GET", history.path(f"limit=9&continue={quote(forged.rstrip('='))}"))
        assert answer.status in (200, 400)
        if answer.status == 200:
            assert all(item["metadata"]["namespace"] == "default" for item in answer.json["items"])


async def test_what_is_forgotten_is_gone_but_can_go_on_from_here(tmp_path: Path) -> None:
    """410 Expired, for a page with a token for the newest state, as ``handleCompactedErrorForPaging`` gives it.

    A server that has started anew remembers nothing from before, and its store has been compacted.
    """
    async with running_apiserver("sqlite", tmp_path) as server:
        early = await make(server, "m0")
        for name in EARLY[1:]:
            await make(server, name)
        token = (await server.request("GET", f"{MAPS}?limit=2")).json["metadata"]["continue"]
        revision = await make(server, "m4")
        await server.running.backend.compact(revision)
    async with running_apiserver("sqlite", tmp_path) as server:
        gone = await server.request("GET", f"{MAPS}?limit=2&continue={quote(token)}")
        assert (gone.status, gone.json["reason"]) == (410, "Expired"), gone.json
        again = gone.json["metadata"]["continue"]
        rest = await server.request("GET", f"{MAPS}?limit=5&continue={quote(again)}")
        assert [item["metadata"]["name"] for item in rest.json["items"]] == ["m2", "m3", "m4"]
        assert int(rest.json["metadata"]["resourceVersion"]) >= revision
        exact = await server.request("GET", f"{MAPS}?resourceVersion={early}&resourceVersionMatch=Exact")
        assert (exact.status, exact.json["reason"]) == (410, "Expired")
        watch = await server.request("GET", f"{MAPS}?watch=1&resourceVersion={early}&timeoutSeconds=1")
        assert watch.status == 200, "reflectors look for it in the stream"
        (event,) = map(json.loads, watch.body.splitlines())
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert event["object"]["message"].startswith(f"too old resource version: {early} (")


REFUSED_WATCHES: list[tuple[str, int, str]] = [
    (
        "sendInitialEvents=true",
        422,
        "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    (
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        422,
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    (
        "resourceVersionMatch=NotOlderThan&resourceVersion={now}",
        422,
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    ),
    ("resourceVersion=abc", 400, "Invalid value"),
    ("timeoutSeconds=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("labelSelector=a%20in%20(", 400, "unable to parse requirement"),
    ("fieldSelector=spec.x=y", 400, "is not a known field selector"),
]


@pytest.mark.parametrize(("query", "code", "text"), REFUSED_WATCHES)
async def test_watches_are_refused(history: History, query: str, code: int, text: str) -> None:
    answer = await history.server.request("GET", history.path(f"{query}&watch=1&timeoutSeconds=1"))
    assert answer.status == code, answer.body
    assert text in answer.json["message"]


async def seen(history: History, query: str) -> list[tuple[str, str]]:
    """(type, name) of everything that a watch of one second shows."""
    answer = await history.server.request("GET", history.path(f"watch=1&timeoutSeconds=1&{query}"))
    assert answer.status == 200, answer.body
    events = [json.loads(line) for line in answer.body.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


PRESENT = [("ADDED", name) for name in NOW]
PAST = [("DELETED", "m0"), ("ADDED", "m4")]
WATCHED: list[tuple[str, list[tuple[str, str]]]] = [
    # "Get State and Start": what is there, then what happens
    ("", PRESENT),
    ("resourceVersion=0", PRESENT),
    # "Start at Exact"
    ("resourceVersion={early}", PAST),
    ("resourceVersion={now}", []),
    # streamed lists (KEP-3157): the present, a bookmark that says so, then what happens
    ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", [*PRESENT, ("BOOKMARK", "")]),
    (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion={early}",
        [*PRESENT, ("BOOKMARK", "")],
    ),
    ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", PRESENT),
    ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={early}", PAST),
    ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", []),
    ("fieldSelector=metadata.name=m2", [("ADDED", "m2")]),
]


async def test_watches_show(history: History) -> None:
    """All at once, as each lasts a second."""
    found = await asyncio.gather(*(seen(history, query) for query, _ in WATCHED))
    assert dict(zip((query for query, _ in WATCHED), found, strict=True)) == dict(WATCHED)


async def test_a_watch_from_the_future_waits_and_gives_up(history: History) -> None:
    answer = await history.server.request("GET", history.path("watch=1&timeoutSeconds=1&resourceVersion={future}"))
    if answer.status != 200:
        assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    else:
        assert not answer.body


async def test_entering_and_leaving_a_selection() -> None:
    """ADDED for what comes to match, DELETED with its last matching state for what no longer does."""
    async with running_apiserver() as server:
        version = await make(server, "m", labels={"color": "red"})
        path = f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}&labelSelector=color%3Dblue"
        watching = asyncio.ensure_future(server.request("GET", path))
        await asyncio.sleep(0.1)
        for color in ("green", "blue", "blue", "red", "blue"):
            patch = {"metadata": {"labels": {"color": color}, "annotations": {"n": str(id(color))}}, "data": {"c": color}}
            await server.request(
                "PATCH", f"{MAPS}/m", {**patch, "data": {"at": str(asyncio.get_running_loop().time())}}, content_type=MERGE
            )
        await server.request("DELETE", f"{MAPS}/m")
        events = [json.loads(line) for line in (await watching).body.splitlines()]
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
        assert events[2]["object"]["metadata"]["labels"]["color"] == "blue", "the state that still matched"


SELECTABLE = {
    # kind: what can be selected beyond metadata.name and metadata.namespace, from its strategy's conversions upstream
    "pods": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName",
    "nodes": "spec.unschedulable",
    "namespaces": "status.phase",
    "secrets": "type",
    "services": "spec.clusterIP spec.type",
    "events": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion "
    "involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type",
    "replicationcontrollers": "status.replicas",
}
SELECTABLE_ELSEWHERE = {
    "/apis/apps/v1/replicasets": "status.replicas",
    "/apis/batch/v1/jobs": "status.successful",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests": "spec.signerName",
    "/apis/networking.k8s.io/v1/ipaddresses": "spec.parentRef.name",
    "/apis/resource.k8s.io/v1/resourceslices": "spec.nodeName spec.driver",
}


async def test_selectable_fields(history: History) -> None:
    paths = {f"/api/v1/{plural}": fields for plural, fields in SELECTABLE.items()} | SELECTABLE_ELSEWHERE
    for path, fields in paths.items():
        for field in ["metadata.name", *fields.split()]:
            answer = await history.server.request("GET", f"{path}?fieldSelector={field}%3Dx")
            assert (answer.status, path, field) == (200, path, field), answer.json
        other = await history.server.request("GET", f"{path}?fieldSelector=spec.other%3Dx")
        assert (other.status, other.json["message"]) == (400, "field label not supported: spec.other")
    deployments = await history.server.request("GET", "/apis/apps/v1/deployments?fieldSelector=status.replicas%3D1")
    text = '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert (deployments.status, deployments.json["message"]) == (400, text)
