"""Snapshots of real stores: consistent while they are written to, restored into either kind, and what clients notice."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.config import Storage
from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.interface import Backend, CompactedError, Delete, Put, StorageUnavailableError
from controlplane.apiserver.storage.snapshots import service
from controlplane.apiserver.storage.snapshots.format import SnapshotError
from controlplane.apiserver.storage.snapshots.targets import BUMP
from tests.support.apiserver import running_apiserver
from tests.support.etcd import Etcd, running_etcd

KINDS = ["sqlite", "etcd3"]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd"), tls=True) as made:
        yield made


class _Numbers:
    last = 0

    @classmethod
    def next(cls) -> int:
        cls.last += 1
        return cls.last


def store(kind: str, etcd: Etcd, folder: Path, name: str) -> Storage:
    """A place that nobody has used."""
    if kind == "sqlite":
        return Storage("sqlite", folder / f"{name}.db", "NORMAL")
    return Storage("etcd3", etcd=etcd.config(prefix=f"/{name}-{_Numbers.next()}"))


@asynccontextmanager
async def opened(place: Storage) -> AsyncIterator[Backend]:
    backend: Backend
    if place.path is not None:
        backend = await SQLiteBackend.open(place.path, synchronous="NORMAL")
    else:
        assert place.etcd is not None
        backend = await EtcdBackend.open(place.etcd)
    try:
        yield backend
    finally:
        await backend.close()


async def contents(backend: Backend) -> dict[str, bytes]:
    found = (await backend.range("/registry/")).items
    return {item.key: item.value for item in found if not item.key.startswith("/registry/pybernetes.io/")}


async def fill(backend: Backend) -> dict[str, bytes]:
    for number in range(150):
        await backend.commit((), (Put(f"/registry/pods/default/{number:03}", b'{"n":%d}' % number),))
    await backend.commit((), (Put("/registry/secrets/default/s", b"\xff\xfe\x00"), Put("/registry/pods/default/000", b"again")))
    await backend.commit((), (Delete("/registry/pods/default/001"),))
    await backend.commit((), (Put("/registry/events/default/e", b"{}", 3600),))
    return await contents(backend)


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
async def test_everything_comes_back_above_all_that_was(source_kind: str, target_kind: str, etcd: Etcd, tmp_path: Path) -> None:
    source, target = store(source_kind, etcd, tmp_path, "old"), store(target_kind, etcd, tmp_path, "new")
    async with opened(source) as backend:
        before = await fill(backend)
        revision = await backend.current_revision()
        saved = await service.save(source, tmp_path / "x.snapshot")
    assert saved.header.revision == revision
    assert service.status(tmp_path / "x.snapshot").keys == saved.keys == len(before)
    await service.restore(tmp_path / "x.snapshot", target)
    async with opened(target) as backend:
        assert await contents(backend) == before
        now = await backend.current_revision()
        assert now >= revision + BUMP
        for seen in (1, revision, revision + 1000):  # by clients of the old cluster, the last after the snapshot
            with pytest.raises(CompactedError):
                await anext(backend.watch("", seen))
            with pytest.raises(CompactedError):
                await backend.get("/registry/pods/default/000", seen)
        outcome = await backend.commit((), (Put("/registry/pods/default/later", b"1"),))
        assert outcome.revision == now + 1
        assert [event.revision for event in await anext(backend.watch("/registry/", now))] == [now + 1]
        with pytest.raises(SnapshotError, match="empty store only"):
            await service.restore(tmp_path / "x.snapshot", target)
        held = await backend.get("/registry/pods/default/later")
        assert held is not None, "the refused restore has changed nothing"


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_of_one_moment_while_writes_go_on(kind: str, etcd: Etcd, tmp_path: Path) -> None:
    """Two keys are always written together; a snapshot must never see one of them ahead."""
    place = store(kind, etcd, tmp_path, "busy")
    async with opened(place) as backend:
        await fill(backend)
        stop = asyncio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                value = b"%d" % number
                await backend.commit((), (Put("/registry/a/first", value), Put("/registry/z/last", value)))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            for attempt in range(5):
                await asyncio.sleep(0.05)
                file = tmp_path / f"{attempt}.snapshot"
                await service.save(place, file)
                values = {item.key: item.value for items in service.file_format.read(file) for item in items}
                assert values["/registry/a/first"] == values["/registry/z/last"]
            stop.set()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_expires_goes_on_expiring(kind: str, etcd: Etcd, tmp_path: Path) -> None:
    source, target = store("sqlite", etcd, tmp_path, "old"), store(kind, etcd, tmp_path, "new")
    async with opened(source) as backend:
        await backend.commit(
            (), (Put("/registry/events/default/short", b"{}", 2), Put("/registry/events/default/long", b"{}", 900))
        )
        await service.save(source, tmp_path / "x")
    await service.restore(tmp_path / "x", target)
    async with opened(target) as backend, asyncio.timeout(15):
        while "/registry/events/default/short" in (left := await contents(backend)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert list(left) == ["/registry/events/default/long"]


async def test_a_damaged_file_touches_no_store(etcd: Etcd, tmp_path: Path) -> None:
    source = store("sqlite", etcd, tmp_path, "old")
    async with opened(source) as backend:
        await fill(backend)
        await service.save(source, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(data[:-20])
    for kind in KINDS:
        target = store(kind, etcd, tmp_path, "new")
        with pytest.raises(SnapshotError):
            await service.restore(tmp_path / "x", target)
        async with opened(target) as backend:
            assert await contents(backend) == {}


async def test_an_interrupted_restore_is_not_taken_for_a_cluster(etcd: Etcd, tmp_path: Path, monkeypatch: Any) -> None:
    source, target = store("sqlite", etcd, tmp_path, "old"), store("etcd3", etcd, tmp_path, "new")
    async with opened(source) as backend:
        await fill(backend)
        await service.save(source, tmp_path / "x")

    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("controlplane.apiserver.storage.snapshots.targets.EtcdTarget.fill", die)
        with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever ends the process
            await service.restore(tmp_path / "x", target)
    with pytest.raises(StorageUnavailableError, match="its restore was interrupted"):
        async with opened(target):
            pass


def command(*arguments: object, code: int = 0) -> str:
    argv = [sys.executable, "-m", "cli", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def etcd_flags(etcd: Etcd, prefix: str, side: str = "") -> list[str]:
    config = etcd.config()
    return [
        f"--{side}etcd-servers={config.servers[0]}",
        f"--{side}etcd-cafile={config.ca}",
        f"--{side}etcd-certfile={config.certificate}",
        f"--{side}etcd-keyfile={config.key}",
        f"--{side}etcd-prefix={prefix}",
    ]


async def test_a_cluster_moves_to_etcd_and_back_and_its_clients_start_over(etcd: Etcd, tmp_path: Path) -> None:
    """With the commands that people use: SQLite > etcd > SQLite, under the same API server's keys."""
    path = "/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    where = tmp_path / "server"
    where.mkdir()
    async with running_apiserver("sqlite", where) as server:
        made = (await server.request("POST", path, body)).json
        listed = (await server.request("GET", path)).json["metadata"]["resourceVersion"]
        said = await asyncio.to_thread(
            command, "migrate", f"--from-storage-path={where / 'store.db'}", *etcd_flags(etcd, "/moved", "to-"), code=1
        )
        assert "is in use by process" in said
    said = await asyncio.to_thread(
        command, "migrate", f"--from-storage-path={where / 'store.db'}", *etcd_flags(etcd, "/moved", "to-")
    )
    assert "from sqlite to etcd3" in said
    over_etcd = Storage("etcd3", etcd=etcd.config(prefix="/moved"))
    async with running_apiserver("etcd3", where, storage=over_etcd) as server:
        moved = (await server.request("GET", f"{path}/a")).json
        assert moved["metadata"]["uid"] == made["metadata"]["uid"]
        assert int(moved["metadata"]["resourceVersion"]) > int(listed)
        watch = await server.request("GET", f"{path}?watch=1&resourceVersion={listed}&timeoutSeconds=1")
        assert watch.json["object"]["code"] == 410, "an informer of before the move lists again"
        stale = await server.request("PUT", f"{path}/a", made)
        assert stale.status == 409
        changed = await server.request("PUT", f"{path}/a", {**moved, "data": {"k": "w"}})
        assert changed.status == 200
        back = f"--to-storage-path={tmp_path / 'back.db'}"
        said = await asyncio.to_thread(command, "migrate", *etcd_flags(etcd, "/moved", "from-"), back, code=1)
        assert "stop all of them first" in said
    await asyncio.to_thread(command, "migrate", *etcd_flags(etcd, "/moved", "from-"), back)
    async with running_apiserver("sqlite", where, storage=Storage("sqlite", tmp_path / "back.db")) as server:
        again = (await server.request("GET", f"{path}/a")).json
        assert again["data"] == {"k": "w"}
        assert int(again["metadata"]["resourceVersion"]) >= int(changed.json["metadata"]["resourceVersion"])


async def test_snapshot_commands(etcd: Etcd, tmp_path: Path) -> None:
    place = store("sqlite", etcd, tmp_path, "state")
    async with opened(place) as backend:
        await fill(backend)
        flag, file = f"--storage-path={place.path}", tmp_path / "x.snapshot"
        said = await asyncio.to_thread(command, "snapshot", "save", file, flag)
        assert "151 keys of revision" in said
        assert "exists; choose another name" in await asyncio.to_thread(command, "snapshot", "save", file, flag, code=1)
        shown = json.loads(await asyncio.to_thread(command, "snapshot", "status", file, "-o", "json"))
        assert shown["resources"] == {"events": 1, "pods": 149, "secrets": 1}
        folder = tmp_path / "many"
        await asyncio.to_thread(command, "snapshot", "schedule", folder, flag, "--every=10ms", "--keep=2", "--count=4")
        assert len(list(folder.glob("*.snapshot"))) == 2
    said = await asyncio.to_thread(command, "snapshot", "restore", file, flag, code=1)
    assert "empty store only" in said
    target = f"--storage-path={tmp_path / 'new.db'}"
    assert "restored 151 keys" in await asyncio.to_thread(command, "snapshot", "restore", file, target)
    assert "there is no database" in await asyncio.to_thread(
        command, "snapshot", "save", tmp_path / "y", f"--storage-path={tmp_path / 'none.db'}", code=1
    )
