"""The etcd backend while etcd misbehaves: members die, hang, lose their quorum, run out of space, lose events, refuse.

Real etcd throughout. What every backend promises is in ``tests/contract``; this is what only etcd can do to us.
"""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.backends.etcd.compaction import Compactor
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.etcd.members import IN_FLIGHT
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.interface import (
    BackendEvent,
    CompactedError,
    Condition,
    Delete,
    OutcomeUnknownError,
    Put,
    StorageUnavailableError,
    TooLargeError,
)
from tests.support.etcd import Etcd, running_etcd


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Etcd]:
    with running_etcd(tmp_path, members=3) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd"), tls=True) as etcd:
        yield etcd


@contextlib.asynccontextmanager
async def opened(config: EtcdConfig) -> AsyncIterator[EtcdBackend]:
    backend = await EtcdBackend.open(config)
    try:
        yield backend
    finally:
        await backend.close()


async def put(backend: EtcdBackend, key: str, value: bytes = b"v") -> int:
    return (await backend.commit((), (Put(key, value),))).revision


class Follower:
    """A watch of everything, as the feed has it, and what it has seen."""

    def __init__(self, backend: EtcdBackend, after: int) -> None:
        self.events: list[BackendEvent] = []
        self._stream = backend.watch("", after)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for batch in self._stream:
            self.events += batch

    async def reached(self, revision: int, seconds: float = 15) -> None:
        async with asyncio.timeout(seconds):
            while not self.events or self.events[-1].revision < revision:
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def count_up(backend: EtcdBackend, seconds: float) -> tuple[int, float]:
    """Raise a counter by conditional writes; how often it was acknowledged, and the longest time between two."""
    done, longest, last = 0, 0.0, time.monotonic()
    end = last + seconds
    held = await backend.get("/registry/counter")
    while time.monotonic() < end:
        value = str(int(held.value if held else 0) + 1).encode()
        condition = Condition("/registry/counter", held.mod_revision if held else 0)
        with contextlib.suppress(StorageUnavailableError):
            assert (await backend.commit((condition,), (Put("/registry/counter", value),))).succeeded
            done += 1
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        held = await backend.get("/registry/counter")
        await asyncio.sleep(0.005)
    return done, max(longest, time.monotonic() - last)


async def test_a_killed_leader_costs_an_election_and_no_event(three: Etcd) -> None:
    async with opened(three.config()) as backend:
        follower = Follower(backend, await put(backend, "/registry/first"))
        counting = asyncio.create_task(count_up(backend, 6))
        await asyncio.sleep(1)
        leader = await asyncio.to_thread(lambda: three.leader)
        leader.kill()
        await asyncio.sleep(3)
        leader.start()
        done, longest = await counting
        held = await backend.get("/registry/counter")
        assert held is not None
        assert int(held.value) == done, "a write was acknowledged and lost, or not acknowledged and made"
        assert longest < 3, "the election timeout is half a second"
        assert done > 100
        await follower.reached(held.mod_revision)
        counted = [int(event.value or b"0") for event in follower.events if event.key == "/registry/counter"]
        assert counted == list(range(1, done + 1))
        await follower.stop()


async def test_a_member_that_hangs_is_left(three: Etcd) -> None:
    """Stopped, not dead: its connections stay open and nothing comes back."""
    async with opened(three.config()) as backend:
        follower = Follower(backend, await put(backend, "/registry/first"))
        await follower.reached(await put(backend, "/registry/second"))
        three.members[0].pause()  # the one that is asked first
        began = time.monotonic()
        revision = (await backend.commit((Condition("/registry/third", 0),), (Put("/registry/third", b"3"),))).revision
        assert await backend.get("/registry/third") is not None
        assert time.monotonic() - began < 5
        await follower.reached(revision, 8)
        three.members[0].resume()
        await follower.stop()


async def test_without_a_quorum_everything_is_refused_in_time_and_then_goes_on(three: Etcd) -> None:
    async with opened(three.config()) as backend:
        revision = await put(backend, "/registry/first")
        follower = Follower(backend, revision)
        for member in three.members[1:]:
            member.kill()
        await asyncio.sleep(1.5)  # until the one that is left has noticed
        began = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"has no leader|timed out|failed to connect") as refused:
            await backend._call("KV", "Txn", _txn(), safe=False, seconds=2)
        assert time.monotonic() - began < 3
        assert refused.value.retry_after >= 1
        for member in three.members[1:]:
            member.start()
        await asyncio.to_thread(three.wait)
        revision = await put(backend, "/registry/second")
        await follower.reached(revision)
        assert [event.revision for event in follower.events] == list(range(follower.events[0].revision, revision + 1))
        await follower.stop()


def _txn() -> Any:
    from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb

    return pb.TxnRequest(success=[pb.RequestOp(request_put=pb.PutRequest(key=b"/registry/x", value=b"y"))])


async def test_an_etcd_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.apiserver.storage.backends.etcd.backend.START_SECONDS", 0.5)
    with pytest.raises(StorageUnavailableError, match=r"http://127\.0\.0\.1:1: .*connect"):
        await EtcdBackend.open(EtcdConfig(("http://127.0.0.1:1",)))


async def test_a_restarted_etcd_is_found_again(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:
        async with opened(etcd.config()) as backend:
            follower = Follower(backend, await put(backend, "/registry/first"))
            for number in range(3):
                etcd.members[0].kill()
                etcd.members[0].start()
                key = f"/registry/{number}"
                revision = (await backend.commit((Condition(key, 0),), (Put(key, key.encode()),))).revision
                await follower.reached(revision)
            assert [event.key for event in follower.events] == [f"/registry/{number}" for number in range(3)]
            await follower.stop()


async def test_a_full_database_refuses_writes_says_why_and_recovers(tmp_path: Path) -> None:
    with running_etcd(tmp_path, more=("--quota-backend-bytes=2097152",)) as etcd:
        async with opened(etcd.config()) as backend:
            last = [0]

            async def fill() -> None:
                while True:
                    last.append(await put(backend, "/registry/big", b"x" * 100_000))

            with pytest.raises(StorageUnavailableError, match="has reached its quota") as refused:
                await fill()
            assert refused.value.retry_after == 10
            assert not isinstance(refused.value, OutcomeUnknownError)
            assert (await backend.get("/registry/big")) is not None, "reads go on"
            await backend.compact(last[-1])
            await asyncio.to_thread(etcd.ctl, "defrag")
            await asyncio.to_thread(etcd.ctl, "alarm", "disarm")
            await put(backend, "/registry/small")


async def test_too_large_a_value_is_refused_for_good(one: Etcd) -> None:
    async with opened(one.config()) as backend:
        await put(backend, "/registry/large", b"x" * 1_000_000)
        with pytest.raises(TooLargeError, match="too large"):
            await put(backend, "/registry/larger", b"x" * 2_000_000)


class LosingStream:
    """An etcd that loses one revision of a watch, as issue #18089 does: ``times`` times, then no more."""

    def __init__(self, call: Any, lost: int, times: list[int]) -> None:
        self._call, self._lost, self._times = call, lost, times

    async def write(self, request: Any) -> None:
        await self._call.write(request)

    async def read(self) -> Any:
        response = await self._call.read()
        events = getattr(response, "events", ())
        kept = [event for event in events if event.kv.mod_revision != self._lost]
        if len(kept) != len(events) and self._times[0]:
            self._times[0] -= 1
            del response.events[:]
            response.events.extend(kept)
        return response

    def cancel(self) -> None:
        self._call.cancel()


def lose(backend: EtcdBackend, revision: int, times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    left, stream = [times], backend._members.stream

    @contextlib.asynccontextmanager
    async def losing(*arguments: Any) -> AsyncIterator[Any]:
        async with stream(*arguments) as call:
            yield LosingStream(call, revision, left)

    monkeypatch.setattr(backend._members, "stream", losing)
    return left


async def test_an_event_lost_once_is_asked_for_again(one: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(one.config()) as backend:
        start = await put(backend, "/registry/first")
        left = lose(backend, start + 2, 1, monkeypatch)
        follower = Follower(backend, start)
        for number in range(4):
            await put(backend, f"/registry/{number}")
        await follower.reached(start + 4)
        assert left == [0]
        assert [event.revision for event in follower.events] == [start + 1, start + 2, start + 3, start + 4]
        await follower.stop()


async def test_an_event_lost_for_good_makes_the_reader_start_over(one: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(one.config()) as backend:
        start = await put(backend, "/registry/first")
        lose(backend, start + 2, 1_000, monkeypatch)
        follower = Follower(backend, start)
        for number in range(4):
            await put(backend, f"/registry/{number}")
        with pytest.raises(CompactedError):
            await follower.reached(start + 4)
        # what came in one answer with the gap goes with it: its readers start over in any case
        assert [event.revision for event in follower.events] in ([], [start + 1])


async def test_the_last_event_lost_is_noticed_without_a_successor(one: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no gap to see; but the position stays behind etcd's revision."""
    monkeypatch.setattr("controlplane.apiserver.storage.backends.etcd.backend.WATCH_CHECK", 0.1)
    async with opened(one.config()) as backend:
        start = await put(backend, "/registry/first")
        left = lose(backend, start + 1, 1, monkeypatch)
        follower = Follower(backend, start)
        await put(backend, "/registry/second")
        await follower.reached(start + 1)
        assert left == [0]
        await follower.stop()


async def test_a_deletion_at_the_compacted_revision_is_not_missed(one: Etcd) -> None:
    """Issue #18089 as it happens in 3.4.23: a watch from there on gets no event for it, and no error."""
    async with opened(one.config()) as backend:
        start = await put(backend, "/registry/doomed")
        gone = (await backend.commit((), (Delete("/registry/doomed"),))).revision
        await asyncio.to_thread(one.ctl, "compact", str(gone))  # somebody else does it: this backend does not know
        last = await put(backend, "/registry/after")
        follower = Follower(backend, start)
        try:
            await follower.reached(last)
            assert [event.revision for event in follower.events] == [gone, last]  # an etcd without the fault
        except CompactedError:
            assert not follower.events, "told to start over before anything else was told"
        await follower.stop()


class Recorder:
    """A cache that records what the feed does with it."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.reloads = 0

    def apply(self, event: BackendEvent) -> None:
        self.applied.append(event.revision)

    async def reload(self) -> None:
        self.reloads += 1

    def stop(self) -> None:
        pass


async def test_the_feed_reloads_after_a_loss_and_follows_on(one: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(one.config()) as backend:
        start = await put(backend, "/registry/pods/first")
        lose(backend, start + 1, 2, monkeypatch)
        feed, recorder = Feed(backend), Recorder()
        feed.register("/registry/pods/", recorder)
        running = asyncio.create_task(feed.run())
        await feed.started()
        await put(backend, "/registry/pods/lost")
        await put(backend, "/registry/pods/seen")
        last = await put(backend, "/registry/pods/last")
        async with asyncio.timeout(10):
            await feed.reached(last)
        assert recorder.reloads == 1
        last = await put(backend, "/registry/pods/later")
        async with asyncio.timeout(10):
            await feed.reached(last)
        assert recorder.applied[-1] == last
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_revision_that_goes_backwards_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody restores an old state under a running server: with everything it remembers it would go on in vain."""
    monkeypatch.setattr("controlplane.apiserver.storage.backends.etcd.backend.WATCH_CHECK", 0.1)
    with running_etcd(tmp_path) as etcd:
        member = etcd.members[0]
        async with opened(etcd.config()) as backend:
            stopped = asyncio.Event()
            monkeypatch.setattr(backend, "_stop_process", stopped.set)
            start = await put(backend, "/registry/first")
            await asyncio.to_thread(etcd.ctl, "snapshot", "save", str(tmp_path / "old"))
            follower = Follower(backend, start)
            await follower.reached(await put(backend, "/registry/second"))
            await asyncio.sleep(0.3)
            assert not stopped.is_set()
            member.kill()
            shutil.rmtree(member.data)
            await asyncio.to_thread(etcd.restore_member, member, tmp_path / "old")
            member.start()
            async with asyncio.timeout(10):
                await stopped.wait()
            await follower.stop()


async def test_compaction_is_done_by_one_of_many_and_stays_behind(one: Etcd) -> None:
    async with opened(one.config()) as first, opened(one.config()) as second:
        clocks = [Compactor(backend._members) for backend in (first, second)]
        done: list[int] = []
        marks: list[int] = []
        for number in range(5):
            marks.append(await put(first, f"/registry/{number}"))
            done += [await clock.tick() for clock in clocks]
        compacted = [revision for revision in done if revision]
        assert len(compacted) == 4, "one server each time; at the start nobody, as nothing is known of the past"
        assert compacted == sorted(set(compacted))
        assert marks[-2] <= compacted[-1] < marks[-1], "history of one interval is kept"
        with pytest.raises(CompactedError) as refused:
            await second.get("/registry/0", marks[0])
        assert refused.value.compacted == compacted[-1]


async def test_keys_go_under_the_prefix(one: Etcd) -> None:
    config = one.config(prefix="/clusters/blue")
    async with opened(config) as blue, opened(one.config()) as plain:
        start = await blue.current_revision()
        follower = Follower(blue, start)
        await put(plain, "/registry/pods/default/other")
        revision = await put(blue, "/registry/pods/default/a")
        assert await asyncio.to_thread(one.ctl, "get", "--keys-only", "/clusters/blue/pods/default/a") != ""
        assert [item.key for item in (await blue.range("/registry/pods/")).items] == ["/registry/pods/default/a"]
        assert (await blue.get("/registry/pods/default/other")) is None
        await follower.reached(revision)
        assert [event.key for event in follower.events][-1] == "/registry/pods/default/a"
        assert "/registry/pods/default/other" not in [event.key for event in follower.events]
        await follower.stop()


@contextlib.contextmanager
def access_control(etcd: Etcd, role: Sequence[Sequence[str]]) -> Iterator[None]:
    """Users by certificate: root, and kube-apiserver with these permissions."""
    etcd.ctl("user", "add", "root", "--no-password")
    etcd.ctl("user", "grant-role", "root", "root")
    etcd.ctl("user", "add", "kube-apiserver", "--no-password")
    etcd.ctl("role", "add", "kube")
    for permission in role:
        etcd.ctl("role", "grant-permission", "kube", *permission)
    etcd.ctl("user", "grant-role", "kube-apiserver", "kube")
    etcd.ctl("auth", "enable")
    yield


async def test_access_to_the_prefix_alone_is_enough(tmp_path: Path) -> None:
    with running_etcd(tmp_path, tls=True) as etcd, access_control(etcd, [("readwrite", "--prefix=true", "/registry/")]):
        certificate, key = etcd.client_certificate("kube-apiserver")
        config = replace(etcd.config(), certificate=certificate, key=key)
        async with opened(config) as backend:
            feed, recorder = Feed(backend), Recorder()
            feed.register("/registry/pods/", recorder)
            running = asyncio.create_task(feed.run())
            async with asyncio.timeout(10):
                await feed.started()
            revision = await put(backend, "/registry/pods/default/a")
            await asyncio.to_thread(etcd.ctl, "put", "elsewhere", "x")
            assert await backend.current_revision() > revision + 1
            async with asyncio.timeout(5):
                await feed.reached(await backend.current_revision())
            assert recorder.applied == [revision]
            with pytest.raises(StorageUnavailableError, match="permission denied"):
                await backend._call("KV", "Txn", _elsewhere(), safe=True)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _elsewhere() -> Any:
    from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb

    return pb.TxnRequest(success=[pb.RequestOp(request_put=pb.PutRequest(key=b"elsewhere", value=b"y"))])


async def test_a_renewed_client_certificate_is_taken_up(tmp_path: Path) -> None:
    with running_etcd(tmp_path, tls=True) as etcd:
        certificate, key = etcd.client_certificate("kube-apiserver")
        async with opened(replace(etcd.config(), certificate=certificate, key=key)) as backend:
            await put(backend, "/registry/a")
            channel = backend._members.pick()._channel
            etcd.client_certificate("kube-apiserver")
            etcd.members[0].kill()
            etcd.members[0].start()
            await put(backend, "/registry/b")
            assert backend._members.pick()._channel is not channel


async def test_a_watch_and_a_read_under_way_outlive_the_change_of_certificates(tmp_path: Path) -> None:
    """The first failure after a renewal closes the channel below everything that is under way on it."""
    with running_etcd(tmp_path, tls=True) as etcd:
        certificate, key = etcd.client_certificate("kube-apiserver")
        async with opened(replace(etcd.config(), certificate=certificate, key=key)) as backend:
            feed, recorder = Feed(backend), Recorder()
            feed.register("/registry/pods/", recorder)
            running = asyncio.create_task(feed.run())
            await feed.started()
            member = backend._members.pick()
            channel = member._channel
            etcd.client_certificate("kube-apiserver")
            etcd.members[0].pause()
            reading = asyncio.create_task(backend.get("/registry/pods/none"))
            while backend._members._slots._value == IN_FLIGHT:  # noqa: ASYNC110 - until it is under way
                await asyncio.sleep(0.01)
            await backend._members.note_failure(member, "for the test")
            etcd.members[0].resume()
            assert await reading is None
            assert backend._members.pick()._channel is not channel
            last = await put(backend, "/registry/pods/later")
            async with asyncio.timeout(10):
                await feed.reached(last)
            assert recorder.applied[-1] == last
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_many_calls_at_once_are_held_back(one: Etcd) -> None:
    """grpc.aio cancels calls at random when some 2,000 are in flight."""
    async with opened(one.config()) as backend:
        revisions = await asyncio.gather(*(put(backend, f"/registry/many/{number}") for number in range(3_000)))
        assert len(set(revisions)) == 3_000


async def test_readers_share_one_look_at_the_revision(one: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(one.config()) as backend:
        asked, call = [0], backend._members.call

        async def counted(*arguments: Any, **how: Any) -> Any:
            asked[0] += 1
            return await call(*arguments, **how)

        monkeypatch.setattr(backend._members, "call", counted)
        revisions = await asyncio.gather(*(backend.current_revision() for _ in range(500)))
        assert asked[0] == 2, "the one under way when most came, and the one after it"
        before = await put(backend, "/registry/later")
        assert await backend.current_revision() >= before > max(revisions)
