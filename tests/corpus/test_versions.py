"""Objects survive every version: made in one, read and written in each other one, as JSON and protobuf, nothing gets lost.

For every kind that is served in more than one version, with the valid manifests of the corpus and with random crossings of them.
``tests/unit/controlplane/apiserver/kinds/test_versions.py`` does the same to random objects without a server.
"""

import copy
import json
from random import Random
from typing import Any

import pytest

from apimachinery.codecs import protobuf
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from tests.corpus.cases import Object, cases, collection
from tests.corpus.test_corpus import PROTOBUF, remove, without_servers_part
from tests.support.apiserver import TestServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

CROSSINGS = 5  # of each kind


def families() -> dict[tuple[str, str], list[str]]:
    """The ``apiVersion`` and ``kind`` that is stored: every ``apiVersion`` it is served in, where there are several."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in strategies(KindsConfig()):
        stored = (one.stored_as or one.info).gvk
        found.setdefault((stored.api_version, stored.kind), []).append(one.info.gvk.api_version)
    return {kind: sorted(versions) for kind, versions in found.items() if len(versions) > 1}


FAMILIES = families()


def examples(versions: list[str], kind: str) -> list[Object]:
    """All manifests of the kind, in whichever version, and as many crossings of two of one version."""
    random, found = Random(kind), []
    for version in versions:
        own = [case.body for case in cases("valid") if (case.body["apiVersion"], case.body["kind"]) == (version, kind)]
        found += own + [crossed(random, *random.sample(own, 2)) for _ in range(CROSSINGS if len(own) > 1 else 0)]
    return found


def crossed(random: Random, one: Object, other: Object) -> Object:
    """Field by field from the one or the other, three levels deep."""

    def cross(left: Any, right: Any, depth: int) -> Any:
        if depth and isinstance(left, dict) and isinstance(right, dict):
            keys = [key for key in {**left, **right} if random.random() < 0.8 or key in left.keys() & right.keys()]
            return {key: cross(left.get(key, right.get(key)), right.get(key, left.get(key)), depth - 1) for key in keys}
        return copy.deepcopy(random.choice((left, right)))

    found: Object = cross(one, other, 3)
    found["metadata"] = copy.deepcopy(one["metadata"])
    return {**found, "apiVersion": one["apiVersion"], "kind": one["kind"]}


async def as_each(server: TestServer, paths: dict[str, str]) -> dict[str, Object]:
    return {version: (await server.request("GET", path)).json for version, path in paths.items()}


async def write_back(server: TestServer, paths: dict[str, str]) -> dict[str, Object]:
    """What is read in a version and written back there, as JSON and protobuf, changes it in no version."""
    before = await as_each(server, paths)
    for version, path in paths.items():
        assert before[version]["apiVersion"] == version
        written = await server.request("PUT", path, before[version])
        assert (written.status, written.json) == (200, before[version])
        packed = (await server.request("GET", path, headers={"Accept": PROTOBUF})).body
        written = await server.request("PUT", path, packed, content_type=PROTOBUF)
        assert (written.status, written.json) == (200, before[version])
        assert await as_each(server, paths) == before, version
    return before


@pytest.mark.parametrize("stored", FAMILIES, ids=" ".join)
async def test_through_every_other_version(server: TestServer, stored: tuple[str, str]) -> None:
    kind, versions = stored[1], FAMILIES[stored]
    taken = 0
    for body in examples(versions, kind):
        collections = {version: collection({**body, "apiVersion": version}) for version in versions}
        home = body["apiVersion"]
        made = await server.request("POST", collections[home], body)
        if made.status != 201:
            assert made.status == 422  # a crossing that makes no sense
            continue
        taken += 1
        paths = {version: f"{path}/{made.json['metadata']['name']}" for version, path in collections.items()}
        try:
            shown = await write_back(server, paths)
        finally:
            await remove(server, paths[home])
        for version in versions:
            if kind == "Event" and version != home == "v1":
                continue  # the new interface takes less than the old one
            for form in ("application/json", PROTOBUF):
                again = await server.request("POST", collections[version], packed_as(form, shown[version]), content_type=form)
                assert again.status == 201, again.json["message"]
                try:
                    found = await as_each(server, paths)
                finally:
                    await remove(server, paths[home])
                for each in versions:
                    assert comparable(found[each]) == comparable(shown[each])
    assert taken > CROSSINGS // 2


def packed_as(form: str, obj: Object) -> Any:
    """Without what only the server may write."""
    sent = own_part(obj)
    if form != PROTOBUF:
        return sent
    packed = protobuf.encode(copy.deepcopy(sent))
    assert packed is not None
    return packed


def own_part(obj: Object) -> Object:
    return {key: value for key, value in without_servers_part(obj).items() if key != "status"}


def comparable(obj: Object) -> Object:
    """The old autoscaler has what it cannot say in annotations, as JSON, in which the order of keys says nothing."""
    found = own_part(obj)
    for key, value in found["metadata"].get("annotations", {}).items():
        if key.startswith("autoscaling.alpha."):
            found["metadata"]["annotations"][key] = json.loads(value)
    return found
