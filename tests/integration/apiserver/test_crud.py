"""The life of an object over HTTP: create, read, replace, delete, and what each refuses."""

import asyncio
from typing import Any

import pytest

from tests.support.apiserver import TestServer, running_apiserver

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_created_objects_carry_what_the_system_fills_in(server: TestServer) -> None:
    answer = await server.request("POST", MAPS, config_map(k="v"))
    assert answer.status == 201
    meta = answer.json["metadata"]
    assert meta["namespace"] == "default"
    assert meta["uid"]
    assert meta["resourceVersion"].isdecimal()
    assert meta["creationTimestamp"].endswith("Z")
    assert answer.body.startswith(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"')
    assert (await server.request("GET", f"{MAPS}/a")).body == answer.body


async def test_a_name_is_given_once(server: TestServer) -> None:
    await server.request("POST", MAPS, config_map())
    answer = await server.request("POST", MAPS, config_map())
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.json["message"] == 'configmaps "a" already exists'


async def test_generated_names_extend_the_prefix(server: TestServer) -> None:
    body = config_map()
    body["metadata"] = {"generateName": "job-"}
    names = {(await server.request("POST", MAPS, body)).json["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_update_needs_the_newest_version(server: TestServer) -> None:
    old = (await server.request("POST", MAPS, config_map(k="1"))).json
    new = await server.request("PUT", f"{MAPS}/a", {**old, "data": {"k": "2"}})
    assert new.status == 200
    stale = await server.request("PUT", f"{MAPS}/a", {**old, "data": {"k": "3"}})
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    assert stale.json["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_update_without_a_version_is_unconditional(server: TestServer) -> None:
    await server.request("POST", MAPS, config_map(k="1"))
    answer = await server.request("PUT", f"{MAPS}/a", config_map(k="2"))
    assert (answer.status, answer.json["data"]) == (200, {"k": "2"})


async def test_an_unchanged_update_makes_no_new_version(server: TestServer) -> None:
    old = (await server.request("POST", MAPS, config_map(k="1"))).json
    assert (await server.request("PUT", f"{MAPS}/a", old)).json["metadata"] == old["metadata"]


async def test_identity_cannot_be_changed(server: TestServer) -> None:
    old = (await server.request("POST", MAPS, config_map())).json
    other = {**old, "metadata": {**old["metadata"], "uid": "another", "resourceVersion": ""}}
    answer = await server.request("PUT", f"{MAPS}/a", other)
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: another" in answer.json["message"]


async def test_deleting_answers_with_a_status(server: TestServer) -> None:
    uid = (await server.request("POST", MAPS, config_map())).json["metadata"]["uid"]
    answer = await server.request("DELETE", f"{MAPS}/a")
    assert answer.json["status"] == "Success"
    assert answer.json["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    assert (await server.request("GET", f"{MAPS}/a")).status == 404


async def test_finalizers_hold_an_object_back(server: TestServer) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await server.request("POST", MAPS, body)
    marked = (await server.request("DELETE", f"{MAPS}/a")).json
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    added = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    refused = await server.request("PATCH", f"{MAPS}/a", added, content_type="application/merge-patch+json")
    assert refused.status == 422
    assert "no new finalizers can be added" in refused.json["message"]
    gone = {"metadata": {"finalizers": None}}
    await server.request("PATCH", f"{MAPS}/a", gone, content_type="application/merge-patch+json")
    assert (await server.request("GET", f"{MAPS}/a")).status == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")], ids=["foreground", "orphan"]
)
async def test_propagation_leaves_the_collector_its_finalizer(server: TestServer, policy: str, finalizer: str) -> None:
    await server.request("POST", MAPS, config_map())
    answer = await server.request("DELETE", f"{MAPS}/a", {"propagationPolicy": policy})
    assert answer.json["metadata"]["finalizers"] == [finalizer]


async def test_preconditions_are_checked(server: TestServer) -> None:
    await server.request("POST", MAPS, config_map())
    answer = await server.request("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "other"}})
    assert answer.status == 409
    assert "the UID in the precondition (other) does not match the UID in record" in answer.json["message"]


async def test_deletecollection_takes_what_the_selector_matches(server: TestServer) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        body = config_map(name)
        body["metadata"]["labels"] = {"color": color}
        await server.request("POST", MAPS, body)
    answer = await server.request("DELETE", f"{MAPS}?labelSelector=color%3Dred")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    left = (await server.request("GET", MAPS)).json["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_dry_run_stores_nothing(server: TestServer) -> None:
    answer = await server.request("POST", f"{MAPS}?dryRun=All", config_map())
    assert answer.status == 201
    assert answer.json["metadata"]["uid"]
    assert (await server.request("GET", f"{MAPS}/a")).status == 404
    await server.request("POST", MAPS, config_map(k="1"))
    assert (await server.request("POST", f"{MAPS}?dryRun=All", config_map())).status == 409
    assert (await server.request("PUT", f"{MAPS}/a?dryRun=All", config_map(k="2"))).json["data"] == {"k": "2"}
    assert (await server.request("DELETE", f"{MAPS}/a?dryRun=All")).status == 200
    assert (await server.request("GET", f"{MAPS}/a")).json["data"] == {"k": "1"}


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Any) -> None:
    async with running_apiserver("sqlite", tmp_path) as first:
        made = (await first.request("POST", MAPS, config_map(k="v"))).json
    async with running_apiserver("sqlite", tmp_path) as second:
        assert (await second.request("GET", f"{MAPS}/a")).json == made


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_writers_that_do_not_care_about_versions_all_get_through(backend: str) -> None:
    """Lost races are the server's business, however many at once."""
    async with running_apiserver(backend) as server:
        await server.request("POST", MAPS, config_map())
        merge = "application/merge-patch+json"

        async def patch(number: int) -> int:
            body = {"data": {f"k{number}": "v"}}
            return (await server.request("PATCH", f"{MAPS}/a", body, content_type=merge)).status

        assert await asyncio.gather(*map(patch, range(40))) == [200] * 40
        assert len((await server.request("GET", f"{MAPS}/a")).json["data"]) == 40

        async def remove() -> int:
            return (await server.request("DELETE", f"{MAPS}/a")).status

        codes = await asyncio.gather(*(patch(number) if number % 2 else remove() for number in range(20)))
        assert codes.count(200) >= 1
        assert set(codes) <= {200, 404}


@pytest.mark.parametrize("how", ["create", "update", "merge", "strategic"])
async def test_owner_references_that_say_the_same_are_folded(server: TestServer, how: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
    other = {**owner, "uid": "u2"}
    wanted = [owner, other, owner, {**owner, "blockOwnerDeletion": True}]
    body = config_map()
    if how == "create":
        body["metadata"]["ownerReferences"] = wanted
        answer = await server.request("POST", MAPS, body)
    else:
        await server.request("POST", MAPS, body)
        body["metadata"]["ownerReferences"] = wanted
        if how == "update":
            answer = await server.request("PUT", f"{MAPS}/a", body)
        else:
            patch = "merge-patch" if how == "merge" else "strategic-merge-patch"
            answer = await server.request("PATCH", f"{MAPS}/a", body, content_type=f"application/{patch}+json")
    held = answer.json["metadata"]["ownerReferences"]
    if how == "strategic":  # merged by uid before anything else
        assert [one["uid"] for one in held] == ["u1", "u2"]
        return
    assert held == [owner, other, {**owner, "blockOwnerDeletion": True}]
    assert "contains duplicate entries" in answer.headers["Warning"]
    assert "duplicate UID(s) observed: u1" in answer.headers["Warning"]
    assert ("after mutating admission" in answer.headers["Warning"]) == (how == "merge")
