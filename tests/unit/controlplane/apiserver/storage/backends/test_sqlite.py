"""What only a file can do: survive, be owned, be damaged, be full, forget on time."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.backends.sqlite_file import StorageCorruptError
from controlplane.apiserver.storage.interface import Condition, Delete, KeyValue, Put, StorageUnavailableError


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


@pytest.fixture
async def backend(path: Path) -> AsyncIterator[SQLiteBackend]:
    made = await SQLiteBackend.open(path)
    yield made
    await made.close()


async def put(backend: SQLiteBackend, key: str, value: bytes = b"v", ttl: int = 0) -> int:
    return (await backend.commit((), (Put(key, value, ttl),))).revision


async def keys(backend: SQLiteBackend) -> list[str]:
    return [item.key for item in (await backend.range("")).items]


def shrink_disk(backend: SQLiteBackend, pages: int) -> None:
    """Let SQLite believe that the disk ends here; 0 gives it back."""
    backend._write_database._connection.execute(f"PRAGMA max_page_count = {pages or 1_000_000}")


class TestRestart:
    async def test_everything_is_there_again(self, path: Path) -> None:
        backend = await SQLiteBackend.open(path)
        created = await put(backend, "/a", b"1")
        changed = await put(backend, "/a", b"2")
        await put(backend, "/b")
        last = (await backend.commit((), (Delete("/b"),))).revision
        await backend.close()
        again = await SQLiteBackend.open(path)
        assert await again.current_revision() == last
        assert await again.get("/a") == KeyValue("/a", b"2", created, changed)
        assert await again.get("/a", created) == KeyValue("/a", b"1", created, created)
        assert await keys(again) == ["/a"]
        assert (await again.commit((Condition("/a", changed), Condition("/b", 0)), (Put("/b", b""),))).revision == last + 1
        events = [event async for batch in _until(again, 0, last + 1) for event in batch]
        assert [event.revision for event in events] == list(range(created, last + 2))
        await again.close()

    async def test_compaction_and_revision_are_remembered(self, path: Path) -> None:
        backend = await SQLiteBackend.open(path)
        await put(backend, "/a")
        last = (await backend.commit((), (Delete("/a"),))).revision
        await backend.compact(last)
        await backend.close()
        again = await SQLiteBackend.open(path)
        assert await again.current_revision() == last
        with pytest.raises(Exception, match="compacted"):
            await again.get("/a", last - 1)
        assert await put(again, "/a") == last + 1
        await again.close()

    @pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
    async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(self, path: Path, synchronous: str) -> None:
        acknowledged: dict[str, int] = {}
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _WRITER,
                str(path),
                synchronous,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert process.stdout is not None
            for _ in range(300):
                key, revision = (await process.stdout.readline()).split()
                acknowledged[key.decode()] = int(revision)
            process.send_signal(signal.SIGKILL)
            async for line in process.stdout:
                if line.endswith(b"\n"):
                    acknowledged[line.split()[0].decode()] = int(line.split()[1])
            await process.wait()
            backend = await SQLiteBackend.open(path)
            held = {item.key: item.mod_revision for item in (await backend.range("/k/")).items}
            assert {key: held.get(key) for key in acknowledged} == acknowledged
            assert await backend.current_revision() >= max(acknowledged.values())
            await backend.close()


_WRITER = """
import asyncio, os, sys
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.interface import Condition, Put

async def write(backend, number):
    for step in range(1_000_000):
        key = f"/k/{os.getpid()}/{number}/{step}"
        outcome = await backend.commit((Condition(key, 0),), (Put(key, b"x" * 2000), Put(f"/last/{number}", b"%d" % step)))
        os.write(1, f"{key} {outcome.revision}\\n".encode())

async def main():
    backend = await SQLiteBackend.open(sys.argv[1], synchronous=sys.argv[2])
    await asyncio.gather(*(write(backend, number) for number in range(8)))

asyncio.run(main())
"""


async def _until(backend: SQLiteBackend, after: int, last: int) -> AsyncIterator[object]:
    async for batch in backend.watch("", after):
        yield batch
        if batch[-1].revision >= last:
            return


class TestOwnership:
    async def test_a_second_owner_is_told_who_the_first_is(self, backend: SQLiteBackend, path: Path) -> None:
        with pytest.raises(StorageUnavailableError, match=f"in use by process {os.getpid()}"):
            await SQLiteBackend.open(path)

    async def test_closing_gives_it_free(self, backend: SQLiteBackend, path: Path) -> None:
        await backend.close()
        await backend.close()
        with pytest.raises(StorageUnavailableError, match="closed"):
            await put(backend, "/a")
        await (await SQLiteBackend.open(path)).close()

    async def test_close_writes_what_was_begun(self, backend: SQLiteBackend, path: Path) -> None:
        writing = [asyncio.ensure_future(put(backend, f"/{number}")) for number in range(20)]
        await asyncio.sleep(0)
        await backend.close()
        assert len({await each for each in writing}) == 20
        again = await SQLiteBackend.open(path)
        assert len(await keys(again)) == 20
        await again.close()

    async def test_only_the_owner_may_read_the_files(self, backend: SQLiteBackend, path: Path) -> None:
        await put(backend, "/registry/secrets/a")
        modes = {file.name: file.stat().st_mode & 0o777 for file in await asyncio.to_thread(lambda: list(path.parent.iterdir()))}
        assert set(modes) == {path.name + end for end in ("", "-wal", "-shm", ".lock")}
        assert set(modes.values()) == {0o600}

    async def test_foreign_databases_are_refused(self, path: Path) -> None:
        path.parent.mkdir()
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE t (x)")
        other.close()
        with pytest.raises(StorageUnavailableError, match="not a database of this program"):
            await SQLiteBackend.open(path)

    async def test_a_newer_schema_is_refused(self, backend: SQLiteBackend, path: Path) -> None:
        await backend.close()
        raw = sqlite3.connect(path)
        raw.execute("PRAGMA user_version = 99")
        raw.close()
        with pytest.raises(StorageUnavailableError, match="schema 99"):
            await SQLiteBackend.open(path)


class TestDamage:
    async def test_damaged_file_is_refused_with_advice(self, path: Path) -> None:
        backend = await SQLiteBackend.open(path)
        for number in range(50):
            await put(backend, f"/{number}", b"x" * 3000)
        await backend.close()
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * 20_000)
        with pytest.raises(StorageCorruptError, match=r"is damaged .*restore a snapshot.*\.recover"):
            await SQLiteBackend.open(path)

    async def test_something_else_is_refused_with_advice(self, path: Path) -> None:
        path.parent.mkdir()
        with path.open("wb") as file:
            file.write(b"no database at all, but long enough to be one" * 100)
        with pytest.raises(StorageCorruptError, match="damaged"):
            await SQLiteBackend.open(path)


class TestFullDisk:
    async def test_writes_fail_reads_go_on_and_space_mends_it(self, backend: SQLiteBackend) -> None:
        kept = await put(backend, "/kept", b"1")
        shrink_disk(backend, 1)
        outcomes = await asyncio.gather(
            *(put(backend, f"/big/{number}", b"x" * 50_000) for number in range(20)), return_exceptions=True
        )
        assert any(isinstance(outcome, StorageUnavailableError) and "disk is full" in str(outcome) for outcome in outcomes)
        assert (await backend.get("/kept")) == KeyValue("/kept", b"1", kept, kept)
        stored = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert await backend.current_revision() == kept + len(stored)
        shrink_disk(backend, 0)
        assert await put(backend, "/after") == kept + len(stored) + 1

    async def test_what_was_built_on_a_failed_write_fails_with_it(self, backend: SQLiteBackend) -> None:
        first = await put(backend, "/a", b"1")
        shrink_disk(backend, 1)
        doomed = asyncio.ensure_future(put(backend, "/a", b"x" * 500_000))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(backend.commit((Condition("/a", first + 1),), (Put("/b", b""),)))
        await asyncio.sleep(0)
        assert all(
            isinstance(each, StorageUnavailableError) for each in await asyncio.gather(doomed, second, return_exceptions=True)
        )
        assert not (await backend.commit((Condition("/a", first + 1),), (Put("/b", b""),))).succeeded
        shrink_disk(backend, 0)
        assert (await backend.commit((Condition("/a", first),), (Put("/b", b""),))).succeeded

    async def test_only_durable_writes_refuse_others(self, backend: SQLiteBackend) -> None:
        shrink_disk(backend, 1)
        doomed = asyncio.ensure_future(put(backend, "/a", b"x" * 500_000))
        await asyncio.sleep(0)
        careful = asyncio.ensure_future(backend.commit((Condition("/a", 0),), (Put("/a", b"y" * 500_000),)))
        assert all(
            isinstance(each, StorageUnavailableError) for each in await asyncio.gather(doomed, careful, return_exceptions=True)
        )
        shrink_disk(backend, 0)


class TestExpiry:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    async def test_keys_expire_and_watchers_hear_of_it(self, path: Path, clock: Clock) -> None:
        backend = await SQLiteBackend.open(path, now=clock)
        stream = backend.watch("/e/", await backend.current_revision())
        await put(backend, "/e/1", ttl=60)
        await put(backend, "/e/2", ttl=90)
        await put(backend, "/e/for-ever")
        clock.time += 61
        await backend.expire()
        assert await keys(backend) == ["/e/2", "/e/for-ever"]
        seen: list[tuple[str, bytes | None]] = []
        while len(seen) < 4:
            seen += [(event.key, event.value) for event in await anext(stream)]
        assert seen[-1] == ("/e/1", None)
        await backend.close()

    async def test_writing_again_starts_the_time_anew_or_ends_it(self, path: Path, clock: Clock) -> None:
        backend = await SQLiteBackend.open(path, now=clock)
        await put(backend, "/renewed", ttl=60)
        await put(backend, "/kept", ttl=60)
        clock.time += 50
        await put(backend, "/renewed", ttl=60)
        await put(backend, "/kept")
        clock.time += 50
        await backend.expire()
        assert await keys(backend) == ["/kept", "/renewed"]
        clock.time += 50
        await backend.expire()
        assert await keys(backend) == ["/kept"]
        await backend.close()

    async def test_time_goes_on_over_a_restart(self, path: Path, clock: Clock) -> None:
        backend = await SQLiteBackend.open(path, now=clock)
        for number in range(300):
            await put(backend, f"/e/{number}", ttl=60)
        await backend.close()
        clock.time += 61
        again = await SQLiteBackend.open(path, now=clock)
        await again.expire()
        assert await keys(again) == []
        await again.close()

    async def test_an_expiry_that_cannot_be_written_is_tried_again(self, path: Path, clock: Clock) -> None:
        backend = await SQLiteBackend.open(path, now=clock)
        await put(backend, "/e", ttl=60)
        clock.time += 61
        backend._write_database._connection.execute("PRAGMA query_only = 1")
        await backend.expire()
        assert await keys(backend) == ["/e"]
        backend._write_database._connection.execute("PRAGMA query_only = 0")
        clock.time += 61
        await backend.expire()
        assert await keys(backend) == []
        await backend.close()


class TestCompaction:
    async def test_old_versions_leave_the_file(self, backend: SQLiteBackend) -> None:
        for number in range(1200):
            await put(backend, f"/{number % 10}", b"x" * 500)
        for number in range(5):
            await backend.commit((), (Delete(f"/{number}"),))
        await backend.compact(await backend.current_revision())
        rows = backend._write_database._connection.execute("SELECT count(*) FROM revisions").fetchone()[0]
        assert rows == 5
        assert len(await keys(backend)) == 5

    async def test_it_happens_by_itself_and_gives_space_back(self, path: Path) -> None:
        backend = await SQLiteBackend.open(path, compact_every=0.05)
        for number in range(2000):
            await put(backend, f"/{number % 10}", b"x" * 2000)
        async with asyncio.timeout(10):
            while True:
                await asyncio.sleep(0.05)
                pages = backend._read_database._connection.execute("PRAGMA page_count").fetchone()[0]
                rows = backend._read_database._connection.execute("SELECT count(*) FROM revisions").fetchone()[0]
                if rows == 10 and pages < 500:
                    break
        assert len(await keys(backend)) == 10
        await backend.close()

    async def test_the_file_stays_bounded_over_a_day_of_churn(self, path: Path) -> None:
        """Every quarter of an hour: Leases of 50 nodes, statuses of pods that come and go, events that expire."""
        periods, clock = 24 * 4, Clock()
        backend = await SQLiteBackend.open(path, synchronous="NORMAL", compact_every=0.01, now=clock)
        sizes: list[int] = []
        for period in range(periods):
            writes = [put(backend, f"/registry/leases/kube-node-lease/{node}", b"l" * 500) for node in range(50)]
            for pod in range(20):
                key = f"/registry/pods/default/{period}-{pod}"
                writes += [put(backend, key, b"p" * 3000), put(backend, key, b"q" * 3000)]
                if period:
                    writes.append(backend.commit((), (Delete(f"/registry/pods/default/{period - 1}-{pod}"),)))
                writes.append(put(backend, f"/registry/events/default/{period}-{pod}", b"e" * 800, ttl=3600))
            await asyncio.gather(*writes)
            clock.time += 900
            await backend.expire()
            await asyncio.sleep(0.012)
            sizes.append(backend.size())
        rows = backend._read_database._connection.execute("SELECT count(*) FROM revisions").fetchone()[0]
        living = len(await keys(backend))
        await backend.close()
        settled = max(sizes[8 : periods // 2])  # an hour of events is there from the second hour on
        assert max(sizes[periods // 2 :]) <= settled * 1.2, f"it grows: {sizes[::8]}"
        assert rows < 10 * living


async def test_large_transactions_and_groups(backend: SQLiteBackend) -> None:
    first = await backend.current_revision()
    one = await backend.commit((), tuple(Put(f"/one/{number:04}", b"%d" % number) for number in range(1000)))
    assert one.revision == first + 1
    await asyncio.gather(*(put(backend, f"/many/{number}") for number in range(777)))
    assert len(await keys(backend)) == 1777
    with pytest.raises(ValueError, match="4096"):
        await backend.commit((), tuple(Put(f"/x/{number}", b"") for number in range(4097)))


async def test_backup_is_a_whole_database(backend: SQLiteBackend, tmp_path: Path) -> None:
    for number in range(50):
        await put(backend, f"/{number}")
    await backend.backup(tmp_path / "copy.db")
    copy = await SQLiteBackend.open(tmp_path / "copy.db")
    assert await keys(copy) == await keys(backend)
    assert await copy.current_revision() == await backend.current_revision()
    await copy.close()


async def test_a_file_of_schema_1_moves_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old = {
        "/registry/pods/default/a": "/registry/pods/default/a",
        "/registry/nodes/n": "/registry/minions/n",
        "/registry/services/default/s": "/registry/services/specs/default/s",
        "/registry/deployments.apps/default/d": "/registry/deployments/default/d",
        "/registry/apiservices.apiregistration.k8s.io/v1": "/registry/apiregistration.k8s.io/apiservices/v1",
        "/registry/ranges/servicenodeports/30000": "/registry/ranges/servicenodeports/30000",
    }
    made = await SQLiteBackend.open(path)
    await made.commit((), [Put(key, key.encode()) for key in old])
    revision = await made.current_revision()
    await made.close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 1")
    again = await SQLiteBackend.open(path)
    found = await again.range("/registry/")
    await again.close()
    assert {item.value.decode(): item.key for item in found.items} == old
    assert found.revision == revision


async def test_size_is_that_of_the_files(backend: SQLiteBackend, path: Path) -> None:
    before = backend.size()
    await put(backend, "/a", b"x" * 100_000)
    assert backend.size() >= before + 100_000


async def test_synchronous_is_checked(path: Path) -> None:
    with pytest.raises(ValueError, match="FULL or NORMAL"):
        await SQLiteBackend.open(path, synchronous="OFF")
