"""What the watch cache adds to the contract: sharing, bounds, bookmarks, loading and recovery."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.cacher import feed, history, watcher
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.interface import Collection, Delete, ListOptions, Put, Traits, WatchFrame, WatchOptions
from tests.support.stores import PODS, PREFIX, cached, extract, key, labelled, pod, running_feed


@pytest.fixture
async def backend() -> AsyncIterator[MemoryBackend]:
    made = MemoryBackend()
    yield made
    await made.close()


@pytest.fixture
async def cacher(backend: MemoryBackend) -> AsyncIterator[Cacher]:
    async with cached(backend) as made:
        yield made


async def touch(cacher: Cacher, name: str, text: str) -> int:
    return (await cacher.update(key(name), lambda obj: {**obj, "status": {"text": text}})).revision


async def drain(watch: Any) -> list[WatchFrame]:
    """Everything until the watch ends."""
    async with asyncio.timeout(5):
        return [frame async for frame in watch]


class TestSharing:
    async def test_readers_share_one_entry(self, cacher: Cacher) -> None:
        made = await cacher.create(key("a"), pod("a"))
        assert await cacher.get(key("a")) is made
        assert (await cacher.list(PREFIX, ListOptions())).entries[0] is made

    async def test_watchers_share_one_line(self, cacher: Cacher) -> None:
        watches = [await cacher.watch(PREFIX, WatchOptions()) for _ in range(3)]
        watches.append(await cacher.watch(PREFIX, WatchOptions(matches=lambda traits: True)))
        await cacher.create(key("a"), pod("a"))
        lines = [(await watch.batch())[0].line for watch in watches]
        assert all(line is lines[0] for line in lines)

    async def test_traits_are_extracted_once_per_event(self, backend: MemoryBackend) -> None:
        calls: list[str] = []

        def counting(obj: dict[str, Any]) -> Traits:
            calls.append(obj["metadata"]["name"])
            return extract(obj)

        async with cached(backend, Collection(PREFIX, "v1", "Pod", counting)) as cacher:
            watches = [await cacher.watch(PREFIX, WatchOptions(matches=labelled(x="1"))) for _ in range(5)]
            await cacher.create(key("a"), pod("a", labels={"x": "1"}))
            await cacher.list(PREFIX, ListOptions(matches=labelled(x="1")))
            assert calls == ["a"]
            assert all([len(await watch.batch()) == 1 for watch in watches])

    async def test_equal_labels_are_one_dict(self, cacher: Cacher) -> None:
        first = await cacher.create(key("a"), pod("a", labels={"app": "web"}))
        second = await cacher.create(key("b"), pod("b", labels={"app": "web"}))
        assert first.traits.labels is second.traits.labels


class TestHistory:
    async def test_old_revision_is_answered_by_an_error_frame(self, cacher: Cacher, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history, "KEEP_SECONDS", -1.0)
        made = await cacher.create(key("a"), pod("a"))
        for number in range(history.KEEP_AT_LEAST + 20):
            last = await touch(cacher, "a", str(number))
        oldest = last - history.KEEP_AT_LEAST
        found = await drain(await cacher.watch(PREFIX, WatchOptions(resource_version=str(made.revision))))
        status = orjson.loads(found[0].line)
        assert (len(found), status["type"]) == (1, "ERROR")
        assert status["object"]["code"] == 410
        assert status["object"]["reason"] == "Expired"
        assert status["object"]["message"] == f"too old resource version: {made.revision} ({oldest})"
        watch = await cacher.watch(PREFIX, WatchOptions(resource_version=str(oldest)))
        assert [frame.revision for frame in await watch.batch()] == list(range(oldest + 1, last + 1))

    async def test_young_changes_are_kept_beyond_the_minimum(self, cacher: Cacher) -> None:
        made = await cacher.create(key("a"), pod("a"))
        for number in range(3 * history.KEEP_AT_LEAST):
            await touch(cacher, "a", str(number))
        watch = await cacher.watch(PREFIX, WatchOptions(resource_version=str(made.revision)))
        got = 0
        while got < 3 * history.KEEP_AT_LEAST:
            got += len(await watch.batch())

    async def test_large_changes_are_kept_no_longer_than_memory_allows(
        self, cacher: Cacher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "KEEP_BYTES", 200_000)
        await cacher.create(key("a"), pod("a"))
        for number in range(300):
            last = await touch(cacher, "a", f"{number:03}" + "x" * 1000)
        kept = last - cacher._history.oldest
        assert history.KEEP_AT_LEAST < kept < 200

    async def test_a_quiet_collection_is_not_aged_by_a_busy_one(self, backend: MemoryBackend) -> None:
        nodes = Collection("/registry/nodes/", "v1", "Node", lambda obj: Traits(), namespaced=False)
        async with running_feed(backend) as running:
            quiet, busy = Cacher(running, PODS), Cacher(running, nodes)
            await quiet.start()
            await busy.start()
            made = await quiet.create(key("a"), pod("a"))
            for number in range(300):
                await busy.create(f"/registry/nodes/n{number}", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
            watch = await quiet.watch(PREFIX, WatchOptions(resource_version=str(made.revision)))
            last = await touch(quiet, "a", "x")
            assert [frame.revision for frame in await watch.batch()] == [last]
            assert quiet.revision == await backend.current_revision()


class TestSlowWatchers:
    async def test_full_queue_ends_that_watch_alone(self, cacher: Cacher) -> None:
        slow, quick = await cacher.watch(PREFIX, WatchOptions()), await cacher.watch(PREFIX, WatchOptions())
        await cacher.create(key("a"), pod("a"))
        seen = 0
        for number in range(watcher.QUEUE_BOUND + 5):
            await touch(cacher, "a", str(number))
            seen += len(await quick.batch())
        assert await drain(slow) == []
        assert seen == watcher.QUEUE_BOUND + 6
        stats = cacher.stats()
        assert (stats.objects, stats.watchers, stats.terminated) == (1, 1, 1)
        assert stats.events == seen

    async def test_large_objects_fill_a_queue_by_their_bytes(self, cacher: Cacher, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watcher, "BYTES_BOUND", 10_000)
        await cacher.create(key("a"), pod("a"))
        slow = await cacher.watch(PREFIX, WatchOptions())
        assert len(await slow.batch()) == 1
        for number in range(3):
            await touch(cacher, "a", "x" * 3_000 + str(number))
        assert len(await slow.batch()) == 3, "read in time, it starts from nothing"
        for number in range(5):
            await touch(cacher, "a", "y" * 3_000 + str(number))
        assert await drain(slow) == []

    async def test_initial_state_is_not_bounded_by_the_queue(self, cacher: Cacher) -> None:
        count = watcher.QUEUE_BOUND + 200
        for number in range(count):
            await cacher.create(key(f"p{number:05}"), pod(f"p{number:05}"))
        watch = await cacher.watch(PREFIX, WatchOptions())
        await touch(cacher, "p00000", "late")
        names: list[str] = []
        while len(names) <= count:
            batch = await watch.batch()
            assert 0 < len(batch) <= watcher.BATCH
            names += [f"{frame.type} {frame.entry.key}" for frame in batch]
        assert names[:-1] == [f"ADDED {key(f'p{number:05}')}" for number in range(count)]
        assert names[-1] == f"MODIFIED {key('p00000')}"

    async def test_closing_leaves_nothing_behind(self, cacher: Cacher) -> None:
        options = [
            WatchOptions(bookmarks=True),
            WatchOptions(field_equals=(("spec.nodeName", "n"),)),
            WatchOptions(field_equals=(("metadata.name", "a"),)),
            WatchOptions(field_equals=(("metadata.namespace", "a"),)),
        ]
        watches = [await cacher.watch(prefix, each) for each in options for prefix in (PREFIX, f"{PREFIX}default/")]
        assert len(cacher._dispatch) == 8
        for watch in watches:
            watch.close()
        assert len(cacher._dispatch) == 0
        assert not cacher._dispatch._buckets
        assert not any(cacher._dispatch._fields.values())


class TestPushing:
    async def test_who_wants_to_be_told_is_told_once_for_each_time_there_was_nothing(self, cacher: Cacher) -> None:
        watch = await cacher.watch(PREFIX, WatchOptions(send_initial_events=False))
        told: list[int] = []
        assert watch.push_to(lambda: told.append(1))
        await cacher.create(key("a"), pod("a"))
        await cacher.create(key("b"), pod("b"))
        assert told == [1]
        assert [frame.entry.key for frame in watch.take()] == [key("a"), key("b")]
        assert not watch.take()
        await cacher.create(key("c"), pod("c"))
        assert told == [1, 1]
        watch.take()
        watch.close()
        assert told == [1, 1, 1]
        assert not await watch.batch()

    async def test_not_while_something_waits_to_be_read(self, cacher: Cacher) -> None:
        await cacher.create(key("a"), pod("a"))
        watch = await cacher.watch(PREFIX, WatchOptions())
        assert not watch.push_to(lambda: None)
        assert len(await watch.batch()) == 1
        assert watch.push_to(lambda: None)
        assert watch.push_to(None)
        await cacher.create(key("b"), pod("b"))
        assert not watch.push_to(lambda: None)
        assert len(await watch.batch()) == 1
        watch.close()
        assert not watch.push_to(lambda: None)

    async def test_a_watch_that_is_read_again_wakes_its_reader(self, cacher: Cacher) -> None:
        watch = await cacher.watch(PREFIX, WatchOptions(send_initial_events=False))
        assert watch.push_to(lambda: None)
        assert watch.push_to(None)
        reading = asyncio.ensure_future(watch.batch())
        await asyncio.sleep(0)
        await cacher.create(key("a"), pod("a"))
        assert len(await reading) == 1

    async def test_an_event_is_judged_once_for_those_who_watch_the_same(self, cacher: Cacher) -> None:
        asked: list[str] = []

        def matches(traits: Traits) -> bool:
            asked.append(traits.fields["metadata.name"])
            return True

        watches = [await cacher.watch(PREFIX, WatchOptions(matches=matches)) for _ in range(4)]
        await cacher.create(key("a"), pod("a"))
        assert asked == ["a"]
        await touch(cacher, "a", "x")
        assert asked == ["a"] * 3  # as it was and as it is
        assert all([[frame.type for frame in await watch.batch()] == ["ADDED", "MODIFIED"] for watch in watches])


class TestDispatch:
    async def test_only_those_concerned_are_asked(self, cacher: Cacher) -> None:
        asked: list[str] = []

        def asking(who: str) -> Any:
            def matches(traits: Traits) -> bool:
                asked.append(who)
                return True

            return matches

        for node in ("n1", "n2", "n3"):
            await cacher.watch(PREFIX, WatchOptions(matches=asking(node), field_equals=(("spec.nodeName", node),)))
        for name in ("a", "b"):
            await cacher.watch(f"{PREFIX}default/", WatchOptions(matches=asking(name), field_equals=(("metadata.name", name),)))
        await cacher.watch(f"{PREFIX}other/", WatchOptions(matches=asking("other")))
        await cacher.create(key("a"), pod("a", node="n1"))
        assert sorted(set(asked)) == ["a", "n1"]
        asked.clear()
        await cacher.update(key("a"), lambda obj: {**obj, "spec": {"nodeName": "n2"}})
        assert sorted(set(asked)) == ["a", "n1", "n2"]


@pytest.mark.usefixtures("short_minutes")
class TestBookmarks:
    @pytest.fixture
    def short_minutes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watcher, "BOOKMARK_SECONDS", 0.02)
        monkeypatch.setattr(watcher, "BOOKMARK_BEFORE_END", 0.01)

    async def test_progress_of_other_collections_is_told(self, cacher: Cacher, backend: MemoryBackend) -> None:
        watch = await cacher.watch(PREFIX, WatchOptions(bookmarks=True))
        silent = await cacher.watch(PREFIX, WatchOptions())
        last = (await backend.commit((), (Put("/registry/nodes/n", b'{"metadata":{"name":"n"}}'),))).revision
        frame = (await watch.batch())[0]
        assert orjson.loads(frame.line) == {
            "type": "BOOKMARK",
            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": str(last)}},
        }
        assert not silent._queue
        watch.close()

    async def test_one_comes_shortly_before_the_end(self, cacher: Cacher, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watcher, "BOOKMARK_SECONDS", 1000.0)
        watch = await cacher.watch(PREFIX, WatchOptions(bookmarks=True, timeout=0.03))
        await cacher.create(key("a"), pod("a"))
        assert [frame.type for frame in await watch.batch()] == ["ADDED"]
        async with asyncio.timeout(1):
            assert [frame.type for frame in await watch.batch()] == ["BOOKMARK"]


class TestLoading:
    async def test_start_takes_what_is_there_and_follows(self, backend: MemoryBackend) -> None:
        for number in range(2500):
            await backend.commit((), (Put(key(f"p{number}"), b'{"metadata":{"name":"p","namespace":"default"}}'),))
        async with running_feed(backend) as running:
            cacher = Cacher(running, PODS)
            starting = asyncio.ensure_future(cacher.start())
            await asyncio.sleep(0)
            for number in range(2400, 2600):  # while it loads
                await backend.commit((), (Delete(key(f"p{number}")),))
                await asyncio.sleep(0)
            await starting
            last = (await backend.commit((), (Put(key("z"), b'{"metadata":{"name":"z","namespace":"default"}}'),))).revision
            await running.reached(last)
            listed = await cacher.list(PREFIX, ListOptions())
            stored = await backend.range(PREFIX)
            assert [(entry.key, entry.revision) for entry in listed.entries] == [
                (item.key, item.mod_revision) for item in stored.items
            ]

    async def test_reads_before_it_are_told_to_come_again(self, backend: MemoryBackend) -> None:
        async with running_feed(backend) as running:
            cacher = Cacher(running, PODS)
            with pytest.raises(StatusError) as refused:
                await cacher.get(key("a"))
            assert (refused.value.code, refused.value.message) == (429, "storage is (re)initializing")

    async def test_an_unreadable_object_is_left_out(self, cacher: Cacher, backend: MemoryBackend) -> None:
        await backend.commit((), (Put(key("bad"), b"not json"),))
        await backend.commit((), (Put(key("worse"), b'{"metadata":{}}'),))
        await cacher.create(key("good"), pod("good"))
        assert [entry.key for entry in (await cacher.list(PREFIX, ListOptions())).entries] == [key("good")]

    async def test_a_broken_version_takes_the_object_away(self, cacher: Cacher, backend: MemoryBackend) -> None:
        await cacher.create(key("a"), pod("a"))
        last = (await backend.commit((), (Put(key("a"), b"not json"),))).revision
        await cacher._feed.reached(last)
        assert (await cacher.list(PREFIX, ListOptions())).entries == []


class TestRestart:
    async def test_watches_go_on_where_they_were(self, backend: MemoryBackend) -> None:
        async with cached(backend) as before:
            made = await before.create(key("a"), pod("a"))
            gone = await before.delete(key("a"))
            last = await before.create(key("b"), pod("b"))
        async with cached(backend) as after:
            watch = await after.watch(PREFIX, WatchOptions(resource_version=str(made.revision)))
            assert [(frame.type, frame.revision) for frame in await watch.batch()] == [
                ("DELETED", gone.revision),
                ("ADDED", last.revision),
            ]
            assert after.revision == last.revision
            assert (await after.get(key("b"))).revision == last.revision

    async def test_what_was_compacted_or_is_long_ago_is_not_replayed(self, backend: MemoryBackend) -> None:
        made = await backend.commit((), (Put(key("a"), b'{"metadata":{"name":"a","namespace":"default"}}'),))
        for number in range(feed.REPLAY + 50):
            last = (await backend.commit((), (Put("/other", b"%d" % number),))).revision
        for start in (made.revision, last - feed.REPLAY - 1):
            async with cached(backend) as cacher:
                ended = await drain(await cacher.watch(PREFIX, WatchOptions(resource_version=str(start))))
                assert [frame.type for frame in ended] == ["ERROR"]
        await backend.compact(last - 10)
        async with cached(backend) as cacher:
            assert len(cacher) == 1
            ended = await drain(await cacher.watch(PREFIX, WatchOptions(resource_version=str(last - 11))))
            assert [frame.type for frame in ended] == ["ERROR"]
            watch = await cacher.watch(PREFIX, WatchOptions(resource_version=str(last - 10)))
            watch.close()

    async def test_late_caches_start_too(self, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed, "RECENT_BOUND", 5)
        async with running_feed(backend) as running:
            await running.started()
            for number in range(10):
                await backend.commit((), (Put(key(f"{number}"), b'{"metadata":{"name":"a","namespace":"default"}}'),))
            await running.reached(await backend.current_revision())
            assert running.recent() is None
            cacher = Cacher(running, PODS)
            await cacher.start()
            assert len(cacher) == 10


class TestRecovery:
    async def test_missed_changes_reload_and_end_watches(self, cacher: Cacher, backend: MemoryBackend) -> None:
        await cacher.create(key("a"), pod("a"))
        watch = await cacher.watch(PREFIX, WatchOptions(resource_version=str(cacher.revision)))
        for subscription in backend._publisher._subscriptions:
            subscription.lagging, subscription.queue = True, []
        await backend.commit((), (Delete(key("a")), Put(key("b"), b'{"metadata":{"name":"b","namespace":"default"}}')))
        last = (await backend.commit((), (Put("/other", b""),))).revision
        await backend.compact(last)
        for subscription in backend._publisher._subscriptions:
            subscription.wake()
        await cacher._feed.reached(last)
        assert await drain(watch) == []
        assert [entry.key for entry in (await cacher.list(PREFIX, ListOptions())).entries] == [key("b")]
        made = await cacher.create(key("c"), pod("c"))
        assert await cacher.get(key("c")) is made

    async def test_the_end_of_the_backend_ends_watches_and_fails_writes(self, backend: MemoryBackend) -> None:
        async with cached(backend) as cacher:
            await cacher.create(key("a"), pod("a"))
            watch = await cacher.watch(PREFIX, WatchOptions(resource_version=str(cacher.revision)))
            await backend.close()
            assert await drain(watch) == []
            with pytest.raises(StatusError) as refused:
                await cacher.create(key("b"), pod("b"))
            assert refused.value.code == 503

    async def test_one_prefix_has_one_cache(self, cacher: Cacher) -> None:
        with pytest.raises(ValueError, match="has a cache already"):
            await Cacher(cacher._feed, PODS).start()
        cacher.close()
        await Cacher(cacher._feed, PODS).start()
