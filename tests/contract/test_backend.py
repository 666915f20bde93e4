"""What every Backend promises (``storage/interface.py``), asked of each implementation."""

import asyncio
from typing import Any

import pytest

from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.interface import (
    Backend,
    BackendEvent,
    CompactedError,
    Condition,
    Delete,
    FutureRevisionError,
    KeyValue,
    Put,
)


async def put(backend: Backend, key: str, value: bytes = b"v") -> int:
    outcome = await backend.commit((), (Put(key, value),))
    assert outcome.succeeded
    return outcome.revision


async def delete(backend: Backend, key: str) -> int:
    outcome = await backend.commit((), (Delete(key),))
    assert outcome.succeeded
    return outcome.revision


async def collect(backend: Backend, prefix: str, after: int, until: int) -> list[BackendEvent]:
    """The events of a watch up to the one at revision ``until``; checks that batches never split a revision."""
    events: list[BackendEvent] = []
    stream = backend.watch(prefix, after)
    async with asyncio.timeout(10):
        async for batch in stream:
            assert batch
            assert not events or events[-1].revision < batch[0].revision
            events.extend(batch)
            if events[-1].revision >= until:
                break
    return events


def watches(backend: Backend) -> int:
    """How many watches are open."""
    inner: Any = getattr(backend, "_backend", backend)
    return len(inner._watches if isinstance(inner, EtcdBackend) else inner._publisher._subscriptions)


async def keys(backend: Backend, prefix: str) -> list[str]:
    return [item.key for item in (await backend.range(prefix)).items]


async def test_revision_grows_by_one_per_transaction(backend: Backend) -> None:
    first = await backend.current_revision()
    assert await put(backend, "/a") == first + 1
    outcome = await backend.commit((), (Put("/b", b"1"), Put("/c", b"2")))
    assert outcome.revision == first + 2
    assert await delete(backend, "/a") == first + 3
    assert await backend.current_revision() == first + 3


async def test_get_tells_value_and_revisions(backend: Backend) -> None:
    created = await put(backend, "/a", b"one")
    modified = await put(backend, "/a", b"two")
    assert await backend.get("/a") == KeyValue("/a", b"two", created, modified)
    assert await backend.get("/a", created) == KeyValue("/a", b"one", created, created)
    assert await backend.get("/missing") is None
    assert await backend.get("/a", created - 1 or 1) in (None, KeyValue("/a", b"one", created, created))


async def test_recreated_key_has_a_new_create_revision(backend: Backend) -> None:
    await put(backend, "/a")
    gone = await delete(backend, "/a")
    assert await backend.get("/a") is None
    again = await put(backend, "/a", b"new")
    assert await backend.get("/a") == KeyValue("/a", b"new", again, again)
    assert await backend.get("/a", gone) is None


async def test_reads_of_the_future_are_refused(backend: Backend) -> None:
    revision = await put(backend, "/a")
    with pytest.raises(FutureRevisionError):
        await backend.get("/a", revision + 1)
    with pytest.raises(FutureRevisionError):
        await backend.range("/", revision=revision + 1)


async def test_range_is_in_byte_order_and_by_prefix(backend: Backend) -> None:
    for key in ("/r/pods/b/1", "/r/pods/a/2", "/r/pods/a-b/1", "/r/pods.x/a/1", "/r/pods/a/10", "/r/pods/é/1", "/r/pods/a/1"):
        await put(backend, key)
    expected = ["/r/pods/a-b/1", "/r/pods/a/1", "/r/pods/a/10", "/r/pods/a/2", "/r/pods/b/1", "/r/pods/é/1"]
    assert await keys(backend, "/r/pods/") == expected
    assert await keys(backend, "/r/pods/a/") == ["/r/pods/a/1", "/r/pods/a/10", "/r/pods/a/2"]
    assert len(await keys(backend, "")) == 7
    assert await keys(backend, "/nothing/") == []


async def test_range_pages(backend: Backend) -> None:
    for number in range(5):
        await put(backend, f"/k/{number}")
    first = await backend.range("/k/", limit=2)
    assert ([item.key for item in first.items], first.more, first.remaining) == (["/k/0", "/k/1"], True, 3)
    await delete(backend, "/k/3")
    rest = await backend.range("/k/", start="/k/1\0", revision=first.revision)
    assert ([item.key for item in rest.items], rest.more) == (["/k/2", "/k/3", "/k/4"], False)
    assert rest.revision == first.revision
    exact = await backend.range("/k/", limit=4)
    assert (len(exact.items), exact.more, exact.remaining) == (4, False, 0)


async def test_range_at_a_revision_sees_old_values_and_deleted_keys(backend: Backend) -> None:
    await put(backend, "/k/a", b"1")
    then = await put(backend, "/k/b", b"1")
    await put(backend, "/k/a", b"2")
    await delete(backend, "/k/b")
    await put(backend, "/k/c", b"1")
    past = await backend.range("/k/", revision=then)
    assert [(item.key, item.value) for item in past.items] == [("/k/a", b"1"), ("/k/b", b"1")]
    assert await keys(backend, "/k/") == ["/k/a", "/k/c"]


async def test_conditions_hold_or_nothing_happens(backend: Backend) -> None:
    revision = await put(backend, "/a", b"1")
    refused = await backend.commit((Condition("/a", revision), Condition("/b", 7)), (Put("/a", b"2"), Put("/c", b"2")))
    assert not refused.succeeded
    assert refused.current == (KeyValue("/a", b"1", revision, revision), None)
    assert await backend.current_revision() == revision
    assert await backend.get("/c") is None
    created = await backend.commit(
        (Condition("/a", revision), Condition("/b", 0)), (Put("/a", b"2"), Delete("/b"), Put("/c", b""))
    )
    assert created.succeeded
    assert created.revision == revision + 1
    again = await backend.commit((Condition("/c", 0),), (Put("/c", b"3"),))
    assert not again.succeeded
    assert again.current[0] is not None
    assert again.current[0].value == b""


async def test_transaction_naming_a_key_twice_is_refused(backend: Backend) -> None:
    with pytest.raises(ValueError, match="twice"):
        await backend.commit((), (Put("/a", b"1"), Delete("/a")))
    assert await backend.get("/a") is None


async def test_deleting_nothing_changes_nothing(backend: Backend) -> None:
    before = await put(backend, "/a")
    assert await delete(backend, "/none") == before
    assert await backend.current_revision() == before


async def test_of_racing_writers_one_wins(backend: Backend) -> None:
    revision = await put(backend, "/a")
    outcomes = await asyncio.gather(
        *(backend.commit((Condition("/a", revision),), (Put("/a", b"%d" % writer),)) for writer in range(20))
    )
    winners = [number for number, outcome in enumerate(outcomes) if outcome.succeeded]
    assert len(winners) == 1
    held = await backend.get("/a")
    assert held is not None
    assert held.value == b"%d" % winners[0]
    assert all(outcome.current[0] == held for outcome in outcomes if not outcome.succeeded)


async def test_concurrent_commits_have_distinct_consecutive_revisions(backend: Backend) -> None:
    first = await backend.current_revision()
    revisions = await asyncio.gather(*(put(backend, f"/k/{number}") for number in range(300)))
    assert sorted(revisions) == list(range(first + 1, first + 301))
    assert len(await keys(backend, "/k/")) == 300


async def test_watch_tells_creation_change_and_deletion(backend: Backend) -> None:
    start = await backend.current_revision()
    created = await put(backend, "/k/a", b"1")
    changed = await put(backend, "/k/a", b"2")
    await put(backend, "/other")
    gone = await delete(backend, "/k/a")
    assert await collect(backend, "/k/", start, gone) == [
        BackendEvent("/k/a", b"1", created, created, 0),
        BackendEvent("/k/a", b"2", changed, created, created),
        BackendEvent("/k/a", None, gone, created, changed),
    ]


async def test_watch_has_no_gap_between_history_and_present(backend: Backend) -> None:
    start = await backend.current_revision()
    for number in range(50):
        await put(backend, f"/k/{number:03}")

    async def write() -> None:
        for number in range(50, 200):
            await put(backend, f"/k/{number:03}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        events = await collect(backend, "/k/", start, start + 200)
    assert [event.revision for event in events] == list(range(start + 1, start + 201))


async def test_watch_keeps_a_transaction_together(backend: Backend) -> None:
    start = await backend.current_revision()
    outcome = await backend.commit((), tuple(Put(f"/k/{number}", b"x") for number in range(10)))
    last = await put(backend, "/k/z")
    events = await collect(backend, "/k/", start, last)
    assert [event.revision for event in events] == [outcome.revision] * 10 + [last]


async def test_watch_from_the_future_waits_for_it(backend: Backend) -> None:
    now = await backend.current_revision()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(collect(backend, "/", now + 2, now + 3))
        await asyncio.sleep(0)
        for _ in range(3):
            await put(backend, "/a")
    assert [event.revision for event in watching.result()] == [now + 3]


async def test_event_is_queued_when_commit_returns(backend: Backend) -> None:
    stream = backend.watch("/", await backend.current_revision())
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await put(backend, "/a")
    if backend.exclusive:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.done()
    assert (await waiting)[0].key == "/a"


async def test_cancelled_watch_leaves_nothing_behind(backend: Backend) -> None:
    watching = asyncio.ensure_future(collect(backend, "/", await backend.current_revision(), 1_000_000))
    await asyncio.sleep(0.01)
    assert watches(backend)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    await put(backend, "/a")
    assert not watches(backend)


async def test_close_ends_watches(backend: Backend) -> None:
    watching = asyncio.ensure_future(collect(backend, "/", await backend.current_revision(), 1_000_000))
    await asyncio.sleep(0.01)
    await backend.close()
    assert await watching == []


async def test_cancelled_commit_may_still_happen_but_never_half(backend: Backend) -> None:
    writing = asyncio.ensure_future(backend.commit((), (Put("/k/a", b"1"), Put("/k/b", b"1"))))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await put(backend, "/z")
    assert await keys(backend, "/k/") in ([], ["/k/a", "/k/b"])


class TestCompaction:
    async def test_old_reads_and_watches_are_refused(self, backend: Backend) -> None:
        old = await put(backend, "/k/a", b"1")
        at = await put(backend, "/k/a", b"2")
        await put(backend, "/k/a", b"3")
        await backend.compact(at)
        with pytest.raises(CompactedError) as refused:
            await backend.get("/k/a", old)
        assert (refused.value.asked, refused.value.compacted) == (old, at)
        with pytest.raises(CompactedError):
            await backend.range("/k/", revision=old)
        with pytest.raises(CompactedError):
            await collect(backend, "/", old, at)

    async def test_what_is_not_older_stays(self, backend: Backend) -> None:
        await put(backend, "/k/a", b"1")
        await put(backend, "/k/gone", b"1")
        await put(backend, "/k/quiet", b"1")
        await delete(backend, "/k/gone")
        at = await put(backend, "/k/a", b"2")
        last = await put(backend, "/k/a", b"3")
        await backend.compact(at)
        past = await backend.range("/k/", revision=at)
        assert [(item.key, item.value) for item in past.items] == [("/k/a", b"2"), ("/k/quiet", b"1")]
        held = await backend.get("/k/a")
        assert held is not None
        assert (held.value, held.mod_revision) == (b"3", last)
        assert [event.revision for event in await collect(backend, "/", at, last)] == [last]

    async def test_compacting_again_or_backwards_is_harmless_and_forwards_refused(self, backend: Backend) -> None:
        first = await put(backend, "/a")
        last = await put(backend, "/a")
        await backend.compact(last)
        await backend.compact(last)
        await backend.compact(first)
        with pytest.raises(FutureRevisionError):
            await backend.compact(last + 1)
        assert await keys(backend, "/") == ["/a"]

    async def test_everything_deleted_then_compacted_keeps_the_revision(self, backend: Backend) -> None:
        await put(backend, "/a")
        gone = await delete(backend, "/a")
        await backend.compact(gone)
        assert await backend.current_revision() == gone
        assert await put(backend, "/a") == gone + 1

    async def test_live_watch_survives_compaction(self, backend: Backend) -> None:
        start = await backend.current_revision()
        stream = backend.watch("/", start)
        await put(backend, "/a")
        assert (await anext(stream))[0].revision == start + 1
        last = await put(backend, "/a")
        await backend.compact(last)
        final = await put(backend, "/a")
        revisions = [event.revision for event in await anext(stream)]
        assert revisions in ([last, final], [last])


async def test_keys_expire_and_watches_hear_of_it(backend: Backend) -> None:
    start = await backend.current_revision()
    outcome = await backend.commit((), (Put("/k/short", b"1", 1), Put("/k/long", b"1", 600), Put("/k/stays", b"1")))
    stream = backend.watch("/k/", outcome.revision)
    async with asyncio.timeout(10):
        (gone,) = await anext(stream)
    assert (gone.key, gone.value, gone.revision) == ("/k/short", None, outcome.revision + 1)
    assert await keys(backend, "/k/") == ["/k/long", "/k/stays"]
    assert outcome.revision == start + 1


async def test_values_of_any_size_and_bytes(backend: Backend) -> None:
    values = [b"", b"\x00\xff\xfe", bytes(range(256)) * 4_000]  # a megabyte; etcd takes 1.5
    for number, value in enumerate(values):
        await put(backend, f"/k/{number}", value)
    assert [item.value for item in (await backend.range("/k/")).items] == values


async def test_many_keys_are_all_there_page_by_page(backend: Backend) -> None:
    for first in range(0, 1200, 100):
        await backend.commit((), tuple(Put(f"/k/{number:05}", b"x" * 100) for number in range(first, first + 100)))
    found: list[str] = []
    start, revision = "", 0
    while True:
        page = await backend.range("/k/", start=start, revision=revision, limit=500)
        found += [item.key for item in page.items]
        revision = page.revision
        await put(backend, f"/k/{len(found):05}/between")  # writes in between change nothing of it
        if not page.more:
            break
        start = page.items[-1].key + "\0"
    assert found == [f"/k/{number:05}" for number in range(1200)]
