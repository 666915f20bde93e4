"""What every ObjectStore promises, asked of the plain store and of the cacher, each over each backend."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.storage.interface import (
    Backend,
    Condition,
    ConditionFailedError,
    Delete,
    KeyExistsError,
    ListOptions,
    ObjectStore,
    Put,
    Watch,
    WatchOptions,
)
from controlplane.apiserver.storage.objects import PlainStore
from tests.contract.conftest import BACKENDS
from tests.support.stores import PODS, PREFIX, cached, key, labelled, on_node, pod


@dataclass
class Under:
    """The store under test and the backend below it."""

    store: ObjectStore
    backend: Backend


# protobuf keeps what a kind's schema knows; the objects here follow none
pytestmark = pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "packed"], indirect=True)


@pytest.fixture(params=["plain", "cacher"])
async def under(request: pytest.FixtureRequest, backend: Backend) -> AsyncIterator[Under]:
    if request.param == "plain":
        yield Under(PlainStore(backend, PODS), backend)
    else:
        async with cached(backend) as cacher:
            yield Under(cacher, backend)


@pytest.fixture
def store(under: Under) -> ObjectStore:
    return under.store


def names(entries: Sequence[Any]) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in entries]


async def frames(watch: Watch, count: int) -> list[tuple[str, str, int]]:
    """Type, name and revision of the next frames."""
    found: list[tuple[str, str, int]] = []
    async with asyncio.timeout(5):
        async for frame in watch:
            event = orjson.loads(frame.line)
            assert event["type"] == frame.type
            metadata = event["object"]["metadata"]
            if frame.revision:
                assert metadata["resourceVersion"] == str(frame.revision)
            found.append((frame.type, metadata.get("name", ""), frame.revision))
            if len(found) == count:
                break
    return found


async def rename_node(store: ObjectStore, name: str, node: str) -> int:
    def change(obj: dict[str, Any]) -> dict[str, Any]:
        obj["spec"]["nodeName"] = node
        return obj

    return (await store.update(key(name), change)).revision


class TestWrites:
    async def test_created_object_is_read_back_with_its_revision(self, under: Under) -> None:
        made = await under.store.create(key("a"), pod("a", labels={"x": "1"}))
        for entry in (made, await under.store.get(key("a"))):
            assert entry.key == key("a")
            assert entry.revision == await under.backend.current_revision()
            expected = (
                b'{"metadata":{"resourceVersion":"%d","name":"a","namespace":"default","labels":{"x":"1"}},"spec":{"nodeName":""}}'
                % entry.revision
            )
            assert entry.item == expected
            assert entry.body == b'{"apiVersion":"v1","kind":"Pod",' + expected[1:]
            assert entry.decode()["metadata"]["resourceVersion"] == str(entry.revision)

    async def test_stored_bytes_carry_no_resource_version(self, under: Under) -> None:
        obj = pod("a")
        obj["metadata"]["resourceVersion"] = "77"
        await under.store.create(key("a"), obj)
        held = await under.backend.get(key("a"))
        assert held is not None
        assert b"resourceVersion" not in held.value
        assert held.value.startswith(b'{"apiVersion":"v1","kind":"Pod","metadata":{')
        assert obj["metadata"]["resourceVersion"] == "77", "the caller's object is left alone"

    async def test_creating_twice_is_refused(self, store: ObjectStore) -> None:
        await store.create(key("a"), pod("a"))
        with pytest.raises(KeyExistsError):
            await store.create(key("a"), pod("a"))

    async def test_missing_keys_are_key_errors(self, store: ObjectStore) -> None:
        with pytest.raises(KeyError):
            await store.get(key("a"))
        with pytest.raises(KeyError):
            await store.update(key("a"), lambda obj: obj)
        with pytest.raises(KeyError):
            await store.delete(key("a"))

    async def test_conditions_and_further_operations_go_in_with_the_object(self, under: Under) -> None:
        claim = Put("/registry/ranges/ip/10.0.0.1", b"{}")
        free = Condition(claim.key, 0)
        await under.store.create(key("a"), pod("a"), conditions=[free], also=[claim])
        with pytest.raises(ConditionFailedError) as refused:
            await under.store.create(key("b"), pod("b"), conditions=[free], also=[claim])
        assert refused.value.key == claim.key
        with pytest.raises(KeyError):
            await under.store.get(key("b"))
        await under.store.delete(key("a"), also=[Delete(claim.key)])
        assert await under.backend.get(claim.key) is None

    async def test_update_gets_a_fresh_copy_and_stores_the_answer(self, store: ObjectStore) -> None:
        made = await store.create(key("a"), pod("a"))
        seen: list[dict[str, Any]] = []

        def change(obj: dict[str, Any]) -> dict[str, Any]:
            seen.append(obj)
            return {**obj, "spec": {"nodeName": "n"}}

        changed = await store.update(key("a"), change)
        assert changed.revision > made.revision
        assert seen[0]["metadata"]["resourceVersion"] == str(made.revision)
        seen[0]["spec"]["nodeName"] = "mutated"
        assert (await store.get(key("a"))).decode()["spec"] == {"nodeName": "n"}

    async def test_unchanged_objects_are_not_written(self, under: Under) -> None:
        made = await under.store.create(key("a"), pod("a"))
        assert (await under.store.update(key("a"), lambda obj: obj)).revision == made.revision
        assert (await under.store.update(key("a"), lambda obj: None)).revision == made.revision
        assert await under.backend.current_revision() == made.revision

    async def test_update_that_gives_up_changes_nothing(self, store: ObjectStore) -> None:
        made = await store.create(key("a"), pod("a"))

        def refuse(obj: dict[str, Any]) -> dict[str, Any]:
            obj["spec"]["nodeName"] = "x"
            raise RuntimeError("no")

        with pytest.raises(RuntimeError, match="no"):
            await store.update(key("a"), refuse)
        assert (await store.get(key("a"))).body == made.body

    async def test_racing_updates_all_take_effect(self, store: ObjectStore) -> None:
        obj = pod("a")
        obj["spec"]["count"] = 0
        await store.create(key("a"), obj)

        def add(obj: dict[str, Any]) -> dict[str, Any]:
            obj["spec"]["count"] += 1
            return obj

        await asyncio.gather(*(store.update(key("a"), add) for _ in range(25)))
        assert (await store.get(key("a"))).decode()["spec"]["count"] == 25

    async def test_plan_adds_to_the_transaction(self, under: Under) -> None:
        await under.store.create(key("a"), pod("a"))
        claims: list[tuple[str, str]] = []

        def plan(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[Condition], list[Put]]:
            claims.append((old["spec"]["nodeName"], new["spec"]["nodeName"]))
            return [Condition("/registry/ranges/x", 0)], [Put("/registry/ranges/x", b"1")]

        def change(obj: dict[str, Any]) -> dict[str, Any]:
            obj["spec"]["nodeName"] = "n" + str(len(claims))
            return obj

        await under.store.update(key("a"), change, plan=plan)
        assert claims == [("", "n0")]
        with pytest.raises(ConditionFailedError):
            await under.store.update(key("a"), change, plan=plan)
        assert (await under.store.get(key("a"))).decode()["spec"]["nodeName"] == "n0"

    async def test_delete_checks_first_and_returns_the_last_state(self, under: Under) -> None:
        made = await under.store.create(key("a"), pod("a", node="n"))

        def refuse(obj: dict[str, Any]) -> None:
            assert obj["spec"]["nodeName"] == "n"
            raise PermissionError

        with pytest.raises(PermissionError):
            await under.store.delete(key("a"), refuse)
        gone = await under.store.delete(key("a"), lambda obj: None)
        assert gone.revision == made.revision + 1
        assert gone.decode()["spec"]["nodeName"] == "n"
        with pytest.raises(KeyError):
            await under.store.get(key("a"))

    async def test_a_writer_sees_its_write(self, store: ObjectStore) -> None:
        async def life(name: str) -> None:
            for round_ in range(5):
                made = await store.create(key(name), pod(name))
                assert (await store.get(key(name))).revision == made.revision
                changed = await rename_node(store, name, f"n{round_}")
                listed = await store.list(PREFIX, ListOptions())
                assert listed.revision >= changed
                assert changed in [entry.revision for entry in listed.entries]
                await store.delete(key(name))
                with pytest.raises(KeyError):
                    await store.get(key(name))

        await asyncio.gather(*(life(f"p{number}") for number in range(10)))


class TestGet:
    async def test_resource_version_is_a_lower_bound(self, store: ObjectStore) -> None:
        made = await store.create(key("a"), pod("a"))
        later = await rename_node(store, "a", "n")
        for version in ("", "0", str(made.revision), str(later)):
            assert (await store.get(key("a"), version)).revision == later

    async def test_bad_resource_version_is_a_400_that_names_it(self, store: ObjectStore) -> None:
        for text in ("abc", "-1", "1.5", "99999999999999999999999"):
            with pytest.raises(StatusError) as refused:
                await store.get(key("a"), text)
            assert refused.value.code == 400
            assert text in refused.value.message


class TestList:
    @pytest.fixture(autouse=True)
    async def pods(self, store: ObjectStore) -> None:
        for number in range(5):
            await store.create(key(f"p{number}"), pod(f"p{number}", node=f"n{number % 2}", labels={"odd": str(number % 2)}))
        await store.create(key("other", "kube-system"), pod("other", "kube-system", node="n0"))
        await store.create(key("x", "default-2"), pod("x", "default-2"))

    async def test_all_in_key_order(self, under: Under) -> None:
        listed = await under.store.list(PREFIX, ListOptions())
        assert names(listed.entries) == ["x", "p0", "p1", "p2", "p3", "p4", "other"]  # "default-2/" < "default/"
        assert listed.revision == await under.backend.current_revision()
        assert (listed.continue_token, listed.remaining) == ("", None)

    async def test_one_namespace(self, store: ObjectStore) -> None:
        assert names((await store.list(f"{PREFIX}default/", ListOptions())).entries) == ["p0", "p1", "p2", "p3", "p4"]
        assert (await store.list(f"{PREFIX}none/", ListOptions())).entries in ([], ())

    async def test_selectors(self, store: ObjectStore) -> None:
        assert names((await store.list(PREFIX, ListOptions(matches=labelled(odd="1")))).entries) == ["p1", "p3"]
        by_node = ListOptions(matches=on_node("n0"), field_equals=(("spec.nodeName", "n0"),))
        assert names((await store.list(PREFIX, by_node)).entries) == ["p0", "p2", "p4", "other"]
        assert names((await store.list(f"{PREFIX}kube-system/", by_node)).entries) == ["other"]
        by_name = ListOptions(matches=lambda t: t.fields["metadata.name"] == "p1", field_equals=(("metadata.name", "p1"),))
        assert names((await store.list(f"{PREFIX}default/", by_name)).entries) == ["p1"]
        assert names((await store.list(PREFIX, by_name)).entries) == ["p1"]
        assert names((await store.list(f"{PREFIX}kube-system/", by_name)).entries) == []

    async def test_pages_are_one_consistent_list(self, store: ObjectStore) -> None:
        page = await store.list(PREFIX, ListOptions(limit=3))
        seen, revision = names(page.entries), page.revision
        assert page.remaining == 4
        await store.delete(key("p2"))
        await store.create(key("p9"), pod("p9"))
        await rename_node(store, "p3", "moved")
        while page.continue_token:
            page = await store.list(PREFIX, ListOptions(limit=3, continue_token=page.continue_token))
            assert page.revision == revision
            assert all(entry.revision <= revision for entry in page.entries)
            seen += names(page.entries)
        assert seen == ["x", "p0", "p1", "p2", "p3", "p4", "other"]

    async def test_pages_with_a_selector_hold_matching_objects(self, store: ObjectStore) -> None:
        page = await store.list(PREFIX, ListOptions(limit=2, matches=on_node("n0")))
        assert (names(page.entries), page.remaining) == (["p0", "p2"], None)
        page = await store.list(PREFIX, ListOptions(limit=2, matches=on_node("n0"), continue_token=page.continue_token))
        assert (names(page.entries), page.continue_token) == (["p4", "other"], "")

    async def test_page_of_exactly_the_rest_is_the_last(self, store: ObjectStore) -> None:
        page = await store.list(f"{PREFIX}default/", ListOptions(limit=5))
        assert (len(page.entries), page.continue_token) == (5, "")

    async def test_compacted_continue_is_expired_and_offers_to_go_on(self, under: Under) -> None:
        page = await under.store.list(PREFIX, ListOptions(limit=2))
        for number in range(12):  # more changes than states that a cache keeps
            await rename_node(under.store, "p4", f"m{number}")
            await under.store.list(PREFIX, ListOptions(limit=2))
        await under.backend.compact(await under.backend.current_revision())
        with pytest.raises(StatusError) as refused:
            await under.store.list(PREFIX, ListOptions(limit=2, continue_token=page.continue_token))
        assert (refused.value.code, refused.value.reason) == (410, "Expired")
        assert refused.value.message.startswith("The provided continue parameter is too old to display a consistent list result.")
        token = refused.value.status["metadata"]["continue"]
        rest = await under.store.list(PREFIX, ListOptions(continue_token=token))
        assert names(rest.entries) == ["p1", "p2", "p3", "p4", "other"]

    async def test_exact_and_not_older(self, under: Under) -> None:
        then = await under.backend.current_revision()
        await under.store.delete(key("p0"))
        exact = await under.store.list(PREFIX, ListOptions(resource_version=str(then), resource_version_match="Exact"))
        assert ("p0" in names(exact.entries), exact.revision) == (True, then)
        limited = await under.store.list(PREFIX, ListOptions(resource_version=str(then), limit=2))
        assert (names(limited.entries), limited.revision) == (["x", "p0"], then)
        for match in ("", "NotOlderThan"):
            newer = await under.store.list(PREFIX, ListOptions(resource_version=str(then), resource_version_match=match))
            assert ("p0" in names(newer.entries), newer.revision) == (False, then + 1)
        any_version = await under.store.list(PREFIX, ListOptions(resource_version="0", limit=2))
        assert len(any_version.entries) == 6

    async def test_compacted_exact_is_expired(self, under: Under) -> None:
        then = await under.backend.current_revision()
        last = await rename_node(under.store, "p0", "z")
        await under.backend.compact(last)
        with pytest.raises(StatusError) as refused:
            await under.store.list(PREFIX, ListOptions(resource_version=str(then), resource_version_match="Exact"))
        assert (refused.value.code, refused.value.message) == (410, "The resourceVersion for the provided list is too old.")

    async def test_revision_that_does_not_come_is_a_504(self, under: Under, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controlplane.apiserver.storage.versions.FRESHNESS_TIMEOUT", 0.01)
        now = await under.backend.current_revision()
        for match in ("", "Exact", "NotOlderThan"):
            with pytest.raises(StatusError) as refused:
                await under.store.list(PREFIX, ListOptions(resource_version=str(now + 9), resource_version_match=match))
            assert refused.value.code == 504
            assert refused.value.message == f"Timeout: Too large resource version: {now + 9}, current: {now}"
            assert refused.value.status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    @pytest.mark.parametrize("token", ["!", "e30", "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ", "bm90IGpzb24"])
    async def test_bad_continue_is_a_400(self, store: ObjectStore, token: str) -> None:
        with pytest.raises(StatusError) as refused:
            await store.list(PREFIX, ListOptions(continue_token=token, limit=1))
        assert refused.value.code == 400
        assert "continue key is not valid" in refused.value.message

    async def test_continue_cannot_leave_the_prefix(self, store: ObjectStore) -> None:
        token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "../secrets/"})
        import base64

        with pytest.raises(StatusError):
            await store.list(PREFIX, ListOptions(continue_token=base64.urlsafe_b64encode(token).decode()))

    async def test_continue_with_resource_version_is_a_400(self, store: ObjectStore) -> None:
        page = await store.list(PREFIX, ListOptions(limit=2))
        with pytest.raises(StatusError) as refused:
            await store.list(PREFIX, ListOptions(limit=2, continue_token=page.continue_token, resource_version="3"))
        assert refused.value.message == "specifying resource version is not allowed when using continue"


class TestWatch:
    async def test_from_a_revision_tells_every_later_change_once(self, store: ObjectStore) -> None:
        first = (await store.create(key("a"), pod("a"))).revision
        second = (await store.create(key("b"), pod("b"))).revision
        watch = await store.watch(PREFIX, WatchOptions(resource_version=str(first)))
        third = await rename_node(store, "a", "n")
        fourth = (await store.delete(key("b"))).revision
        assert await frames(watch, 3) == [("ADDED", "b", second), ("MODIFIED", "a", third), ("DELETED", "b", fourth)]
        watch.close()

    @pytest.mark.parametrize("version", ["", "0"])
    async def test_without_a_revision_begins_with_the_present(self, store: ObjectStore, version: str) -> None:
        first = (await store.create(key("b"), pod("b"))).revision
        second = (await store.create(key("a"), pod("a"))).revision
        watch = await store.watch(PREFIX, WatchOptions(resource_version=version))
        third = await rename_node(store, "b", "n")
        assert await frames(watch, 3) == [("ADDED", "a", second), ("ADDED", "b", first), ("MODIFIED", "b", third)]
        watch.close()

    async def test_send_initial_events_ends_them_with_a_bookmark(self, store: ObjectStore) -> None:
        first = (await store.create(key("a"), pod("a"))).revision
        last = (await store.create(key("b"), pod("b"))).revision
        options = WatchOptions(resource_version=str(first), send_initial_events=True, bookmarks=True)
        watch = await store.watch(PREFIX, options)
        found: list[dict[str, Any]] = []
        async for frame in watch:
            found.append(orjson.loads(frame.line))
            if frame.type == "BOOKMARK":
                break
        assert [event["type"] for event in found] == ["ADDED", "ADDED", "BOOKMARK"]
        assert found[-1]["object"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"resourceVersion": str(last), "annotations": {"k8s.io/initial-events-end": "true"}},
        }
        third = await rename_node(store, "a", "n")
        assert await frames(watch, 1) == [("MODIFIED", "a", third)]
        watch.close()

    async def test_declined_initial_events_start_at_the_present(self, store: ObjectStore) -> None:
        await store.create(key("a"), pod("a"))
        watch = await store.watch(PREFIX, WatchOptions(send_initial_events=False))
        last = await rename_node(store, "a", "n")
        assert await frames(watch, 1) == [("MODIFIED", "a", last)]
        watch.close()

    async def test_entering_and_leaving_a_selector(self, store: ObjectStore) -> None:
        watch = await store.watch(PREFIX, WatchOptions(matches=on_node("n"), field_equals=(("spec.nodeName", "n"),)))
        everything = await store.watch(PREFIX, WatchOptions(matches=on_node("n")))
        await store.create(key("a"), pod("a"))
        entered = await rename_node(store, "a", "n")
        changed = (await store.update(key("a"), lambda obj: {**obj, "status": {"phase": "Running"}})).revision
        left = await rename_node(store, "a", "m")
        await store.delete(key("a"))
        last = (await store.create(key("b"), pod("b", node="n"))).revision
        expected = [("ADDED", "a", entered), ("MODIFIED", "a", changed), ("DELETED", "a", left), ("ADDED", "b", last)]
        assert await frames(watch, 4) == expected
        assert await frames(everything, 4) == expected
        watch.close()
        everything.close()

    async def test_what_leaves_is_told_as_it_was(self, store: ObjectStore) -> None:
        await store.create(key("a"), pod("a", node="n"))
        watch = await store.watch(PREFIX, WatchOptions(matches=on_node("n")))
        left = await rename_node(store, "a", "m")
        async with asyncio.timeout(5):
            found = [frame async for frame in _take(watch, 2)]
        assert found[1].type == "DELETED"
        obj = found[1].entry.decode()
        assert (obj["spec"]["nodeName"], obj["metadata"]["resourceVersion"]) == ("n", str(left))
        watch.close()

    async def test_one_namespace_or_one_name(self, store: ObjectStore) -> None:
        space = await store.watch(f"{PREFIX}default/", WatchOptions())
        named = WatchOptions(matches=lambda t: t.fields["metadata.name"] == "b", field_equals=(("metadata.name", "b"),))
        one, wide = await store.watch(f"{PREFIX}default/", named), await store.watch(PREFIX, named)
        first = (await store.create(key("a"), pod("a"))).revision
        second = (await store.create(key("b", "other"), pod("b", "other"))).revision
        third = (await store.create(key("b"), pod("b"))).revision
        assert await frames(space, 2) == [("ADDED", "a", first), ("ADDED", "b", third)]
        assert await frames(one, 1) == [("ADDED", "b", third)]
        assert await frames(wide, 2) == [("ADDED", "b", second), ("ADDED", "b", third)]
        for watch in (space, one, wide):
            watch.close()

    async def test_other_collections_are_not_seen(self, under: Under) -> None:
        watch = await under.store.watch(PREFIX, WatchOptions())
        await under.backend.commit((), (Put("/registry/podsx/default/a", b'{"metadata":{"name":"a"}}'),))
        last = (await under.store.create(key("a"), pod("a"))).revision
        assert await frames(watch, 1) == [("ADDED", "a", last)]
        watch.close()

    async def test_closed_watch_ends(self, store: ObjectStore) -> None:
        watch = await store.watch(PREFIX, WatchOptions())
        watch.close()
        watch.close()
        await store.create(key("a"), pod("a"))
        assert await frames(watch, 1) == []

    async def test_batch_gives_what_is_ready_then_nothing(self, under: Under) -> None:
        for name in "abc":
            await under.store.create(key(name), pod(name))
        watch = await under.store.watch(PREFIX, WatchOptions())
        got: list[str] = []
        while len(got) < 3:
            got += [frame.entry.key for frame in await watch.batch()]
        assert got == [key(name) for name in "abc"]
        await under.backend.close()
        async with asyncio.timeout(5):
            assert not await watch.batch()

    async def test_concurrent_writers_make_one_ordered_story(self, store: ObjectStore) -> None:
        watch = await store.watch(PREFIX, WatchOptions())

        async def life(name: str) -> None:
            await store.create(key(name), pod(name))
            for step in range(3):
                await rename_node(store, name, f"n{step}")
            await store.delete(key(name))

        await asyncio.gather(*(life(f"p{number}") for number in range(20)))
        story = await frames(watch, 100)
        revisions = [revision for _, _, revision in story]
        assert revisions == list(range(revisions[0], revisions[0] + 100))
        for number in range(20):
            own = [kind for kind, name, _ in story if name == f"p{number}"]
            assert own == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
        watch.close()


async def _take(watch: Watch, count: int) -> AsyncIterator[Any]:
    async for frame in watch:
        yield frame
        count -= 1
        if not count:
            return
