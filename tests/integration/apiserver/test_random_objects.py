"""Objects that fit their schema and make no other sense, whole and damaged: whatever the server answers, it is never a crash."""

import copy
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from tests.support.apiserver import Answer, TestServer, running_apiserver
from tests.support.samples import sample

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ODD: list[Any] = [None, 0, -1, "", [], {}, True, "x", 1.5, [None], {"a": None}, "-1", "1e400", "\0", 2**63, [{}]]
FROM_SERVER = (
    "namespace",
    "deletionTimestamp",
    "resourceVersion",
    "generateName",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver(runtime_config={"api/all": "true"}) as running:
        yield running


async def collections(server: TestServer) -> list[tuple[str, GroupVersionKind]]:
    """Where each kind that can be created is, in the namespace ``default``."""
    groups = (await server.request("GET", "/apis")).json["groups"]
    roots = ["/api/v1", *(f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"])]
    found = []
    for root in roots:
        listing = (await server.request("GET", root)).json
        group, _, version = listing["groupVersion"].rpartition("/")
        for each in listing["resources"]:
            if "/" not in each["name"] and "create" in each["verbs"]:
                scope = "/namespaces/default" if each["namespaced"] else ""
                found.append((f"{root}{scope}/{each['name']}", GroupVersionKind(group, version, each["kind"])))
    return found


def make(gvk: GroupVersionKind, name: str, rng: random.Random) -> dict[str, Any]:
    obj = {"apiVersion": gvk.api_version, "kind": gvk.kind, **sample(schema.load().of(gvk), rng, density=rng.choice([0.1, 0.4]))}
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in FROM_SERVER}
    return {**obj, "metadata": {**metadata, "name": name}}


def damaged(obj: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with something odd in one place."""
    copied = copy.deepcopy(obj)
    here: Any = copied
    while True:
        key = rng.choice(sorted(here)) if isinstance(here, dict) else rng.randrange(len(here))
        if not isinstance(here[key], dict | list) or not here[key] or rng.random() < 0.3:
            here[key] = rng.choice(ODD)
            return copied
        here = here[key]


def requests(path: str, gvk: GroupVersionKind, rng: random.Random) -> Iterator[tuple[str, str, Any, str, str]]:
    """Method, path, body, its type and the type of answer."""
    obj, one, plain = make(gvk, "n", rng), path + "/n", "application/json"
    yield "POST", path, damaged(obj, rng), plain, plain
    yield "POST", path, obj, plain, plain
    yield "GET", path, None, plain, TABLE
    yield "GET", path, None, plain, PROTOBUF
    yield "PUT", one, damaged(obj, rng), plain, TABLE
    yield "PATCH", one, damaged(obj, rng), MERGE, plain
    yield "PATCH", one, damaged(obj, rng), STRATEGIC, PROTOBUF
    yield "PATCH", one + "?fieldManager=f&force=true", damaged(obj, rng), APPLY, plain
    yield "PUT", one + "/status", damaged(obj, rng), plain, plain
    yield "PATCH", one + "/scale", {"spec": {"replicas": rng.choice(ODD)}}, MERGE, plain
    yield "DELETE", one, {"gracePeriodSeconds": 0}, plain, plain


def crashed(answer: Answer) -> bool:
    """A configuration that does not fit its schema is a 500 at upstream, too."""
    return answer.status >= 500 and not answer.json["message"].startswith("failed to create typed patch object")


async def test_no_object_makes_the_server_fail(server: TestServer) -> None:
    for path, gvk in await collections(server):
        if not schema.load().has(gvk):
            continue
        for seed in range(5):
            for method, where, body, sent, wanted in requests(path, gvk, random.Random(f"{gvk}{seed}")):
                answer = await server.request(method, where, body, content_type=sent, headers={"Accept": wanted})
                assert not crashed(answer), f"seed {seed}: {method} {where} {body}\n{answer.body.decode(errors='replace')}"
