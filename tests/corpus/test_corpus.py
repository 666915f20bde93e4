"""Every manifest of the corpus gets the verdict written above it: stored, with these defaults, or refused, for these reasons.

``scripts/compare_with_upstream.py --corpus`` lets upstream's own server judge the same verdicts.
"""

import json
import re
from typing import Any

import pytest

from apimachinery.codecs import protobuf
from tests.corpus.cases import Case, Object, cases, causes_of, collection
from tests.support.apiserver import Answer, TestServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

YAML, MERGE, PROTOBUF = "application/yaml", "application/merge-patch+json", "application/vnd.kubernetes.protobuf"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OF_THE_SERVER = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "namespace")


def named(which: str) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases(which)])


def without_servers_part(obj: Object) -> Object:
    """What is each server's own: identity and moments; the uid is written ``UID`` wherever it shows."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in OF_THE_SERVER}
    text = json.dumps({**obj, "metadata": metadata}).replace(obj["metadata"].get("uid") or "-none-", "UID")
    found: Object = json.loads(text)
    if found["kind"] == "PersistentVolume":
        found.get("status", {}).pop("lastPhaseTransitionTime", None)
    if found["kind"] == "Service" and found["spec"].get("clusterIP") not in (None, "None"):
        del found["spec"]["clusterIP"], found["spec"]["clusterIPs"]
    if found["kind"] == "DeviceTaintRule":
        found["spec"]["taint"].pop("timeAdded", None)
    return found


def lost(wanted: Any, held: Any, path: str = "") -> list[str]:
    """Paths of ``wanted`` whose value is not the one in ``held``, which may have more fields."""
    if isinstance(wanted, dict) and isinstance(held, dict):
        return [where for key in wanted for where in lost(wanted[key], held.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(held, list) and len(wanted) == len(held):
        pairs = enumerate(zip(wanted, held, strict=True))
        return [where for at, (one, other) in pairs for where in lost(one, other, f"{path}[{at}]")]
    return [] if wanted == held else [f"{path}: {wanted!r} became {held!r}"]


def in_protobuf(obj: Object) -> Object:
    """Without what protobuf has no room for: the type of claims inside a StatefulSet, and null."""
    if obj["kind"] == "StatefulSet":
        for claim in obj["spec"].get("volumeClaimTemplates") or ():
            del claim["apiVersion"], claim["kind"]
    return obj if obj["kind"] == "ControllerRevision" else without_null(obj)


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_null(inner) for key, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value


async def remove(server: TestServer, path: str) -> None:
    await server.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    await server.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


@named("valid")
async def test_valid(server: TestServer, case: Case) -> None:
    path = collection(case.body)
    made = await server.request("POST", f"{path}?fieldValidation=Strict", case.text, content_type=YAML)
    assert made.status == 201, made.json["message"]
    one = f"{path}/{made.json['metadata']['name']}"
    try:
        assert not lost({key: value for key, value in case.body.items() if key != "stringData"}, made.json)
        if case.stored is not None:
            assert without_servers_part(made.json) == without_servers_part(case.stored)
        if made.json["kind"] in ("APIService", "CustomResourceDefinition", "FlowSchema"):
            return  # the server itself goes on to write its status
        held = (await server.request("GET", one)).json
        assert held == made.json
        assert protobuf.decode((await server.request("GET", one, headers={"Accept": PROTOBUF})).body) == in_protobuf(held)
        again = await server.request("PUT", one, made.json)
        assert (again.status, again.json) == (200, made.json), "writing back what was read changes nothing"
    finally:
        await remove(server, one)


def check(case: Case, answer: Answer) -> None:
    assert (answer.status, answer.json["code"]) == (case.code, case.code), answer.json["message"]
    if case.code == 422:
        found = {UID.sub("UID", one) for one in causes_of(answer.json)}
        assert sorted(found) == sorted(set(case.causes))
    else:
        assert case.causes[0] in answer.json["message"]


async def names(server: TestServer, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await server.request("GET", path)).json["items"]]


@named("broken")
async def test_broken(server: TestServer, case: Case) -> None:
    assert case.source, "say where upstream says so"
    path = collection(case.body)
    before = await names(server, path)
    check(case, await server.request("POST", path, case.text, content_type=YAML))
    assert await names(server, path) == before


@named("updates")
async def test_updates(server: TestServer, case: Case) -> None:
    assert case.base is not None
    assert case.source, "say where upstream says so"
    path = collection(case.base)
    made = await server.request("POST", path, case.base)
    assert made.status == 201, made.json["message"]
    one = f"{path}/{case.base['metadata']['name']}"
    try:
        answer = await server.request("PATCH", one, case.body, content_type=MERGE)
        if case.code:
            check(case, answer)
            assert (await server.request("GET", one)).json == made.json
        else:
            assert answer.status == 200, answer.json["message"]
    finally:
        await remove(server, one)


async def test_the_corpus_has_every_kind(server: TestServer) -> None:
    """A minimal and a full object of each kind that can be created and changed, in its stored version."""
    seen = {title: set() for title in ("minimal", "full")}  # type: dict[str, set[str]]
    for case in cases("valid"):
        seen.setdefault(case.title, set()).add(collection(case.body))
    groups = (await server.request("GET", "/apis")).json["groups"]
    wanted = set()
    for root in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
        for each in (await server.request("GET", root)).json["resources"]:
            if "/" not in each["name"] and {"create", "update"} <= set(each["verbs"]):
                wanted.add(f"{root}{'/namespaces/default' if each['namespaced'] else ''}/{each['name']}")
    assert wanted - seen["minimal"] == set()
    assert wanted - seen["full"] == set()
    assert sum(len(cases(which)) for which in ("valid", "broken", "updates")) >= 200
