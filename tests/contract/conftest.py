"""The backends that contract suites run on: each test gets an empty one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.encryption.aes import Gcm
from controlplane.apiserver.storage.encryption.backend import EncryptedBackend
from controlplane.apiserver.storage.forms.backend import FormsBackend
from controlplane.apiserver.storage.forms.media import PROTOBUF
from controlplane.apiserver.storage.interface import Backend
from tests.support.etcd import Etcd, running_etcd, wipe

BACKENDS = ("memory", "sqlite", "encrypted", "packed", "etcd", "etcd-3-tls")


@pytest.fixture(scope="session")
def one_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="session")
def three_etcds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcds"), members=3, tls=True) as etcd:
        yield etcd


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    made = await _make(request, tmp_path)
    yield made
    await made.close()


async def _make(request: pytest.FixtureRequest, folder: Path) -> Backend:
    if request.param == "memory":
        return MemoryBackend()
    if request.param == "encrypted":
        return EncryptedBackend(MemoryBackend(), lambda resource: Gcm(b"k" * 32))
    if request.param == "packed":
        return FormsBackend(MemoryBackend(), PROTOBUF)
    if request.param == "sqlite":
        return await SQLiteBackend.open(folder / "state.db")
    etcd = request.getfixturevalue("one_etcd" if request.param == "etcd" else "three_etcds")
    backend = await EtcdBackend.open(etcd.config())
    await wipe(backend)
    return backend
