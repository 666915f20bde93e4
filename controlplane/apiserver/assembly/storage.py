"""Backend, the shared watch, and one cache per stored resource."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from component import logs
from controlplane.apiserver.config import Storage
from controlplane.apiserver.registry.naming import prefix_of
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy
from controlplane.apiserver.registry.traits import collection_of
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.encryption.backend import EncryptedBackend
from controlplane.apiserver.storage.encryption.interface import KeyUnavailableError
from controlplane.apiserver.storage.forms.backend import FormsBackend
from controlplane.apiserver.storage.interface import Backend, Collection, StorageUnavailableError

KEY_SECONDS = 1.0  # between two tries to load what is encrypted
_log = logs.get(__name__)

if TYPE_CHECKING:
    from controlplane.apiserver.storage.encryption.transformers import Encryption


@dataclass(frozen=True, slots=True)
class Stores:
    """Where objects are: most in ``main``, those of some resources (``events``, ``jobs.batch``) in ``others``."""

    main: FormsBackend
    others: Mapping[str, FormsBackend]
    encryption: "Encryption | None"

    def all(self) -> list[FormsBackend]:
        return list(dict.fromkeys((self.main, *self.others.values())))

    def of(self, info: ResourceInfo) -> FormsBackend:
        return self.others.get(f"{info.plural}.{info.gvk.group}".rstrip("."), self.main)


async def open_storage(config: Storage, stack: contextlib.AsyncExitStack) -> Stores:
    """The backends, and what encrypts values in them if that is configured; ``stack`` closes all. Raises as ``open_backend``."""
    encryption = None
    if config.encryption is not None:
        from controlplane.apiserver.storage.encryption.transformers import Encryption

        encryption = await Encryption.open(config.encryption)
        stack.push_async_callback(encryption.close)

    async def open_one(config: Storage) -> FormsBackend:
        backend = await open_backend(config)
        stack.push_async_callback(backend.close)
        plain = EncryptedBackend(backend, encryption.choose) if encryption is not None else backend
        return FormsBackend(plain, config.media_type)

    main = await open_one(config)
    made: dict[EtcdConfig, FormsBackend] = {}  # resources with the same servers share a connection and a watch
    for etcd in config.overrides.values():
        if etcd not in made:
            made[etcd] = await open_one(replace(config, etcd=etcd))
    return Stores(main, {resource: made[etcd] for resource, etcd in config.overrides.items()}, encryption)


async def open_backend(config: Storage) -> Backend:
    """Raises ValueError for settings that do not fit together."""
    if config.backend == "memory":
        return MemoryBackend(history=10_000)
    if config.backend == "sqlite":
        from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend

        if config.path is None:
            raise ValueError("--storage-backend=sqlite needs --storage-path=FILE")
        return await SQLiteBackend.open(config.path, synchronous=config.synchronous, wipe=config.encryption is not None)
    if config.backend == "etcd3":
        from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend  # gRPC costs 15 MB

        if config.etcd is None:
            raise ValueError("--storage-backend=etcd3 needs --etcd-servers=URL,...")
        return await EtcdBackend.open(config.etcd)
    raise ValueError(f"--storage-backend={config.backend}: choose sqlite, etcd3 or memory")


@dataclass(frozen=True, slots=True)
class Caches:
    """Caches by key prefix. Those of built-in kinds are started; custom resources come and go."""

    by_prefix: dict[str, Cacher]
    feed_of: Callable[[ResourceInfo], Feed]

    def add(self, info: ResourceInfo, collection: Collection) -> Cacher:
        """A cache that is not started yet, in place of the one that may have been there."""
        cache = self.by_prefix[collection.prefix] = Cacher(self.feed_of(info), collection)
        return cache

    def remove(self, cache: Cacher) -> None:
        """Close a cache; nobody needs it any more."""
        cache.close()
        if self.by_prefix.get(cache.collection.prefix) is cache:
            del self.by_prefix[cache.collection.prefix]

    async def catch_up(self) -> None:
        """Read what could not be read so far, with the keys that there are now."""
        for cache in list(self.by_prefix.values()):
            try:
                await cache.catch_up()
            except StorageUnavailableError as error:
                _log.error("storage: still behind", err=error)

    def of(self, strategy: Strategy) -> Cacher:
        return self.by_prefix[prefix_of(strategy.stored_as or strategy.info)]


@contextlib.asynccontextmanager
async def running_caches(stores: Stores, strategies: Iterable[Strategy]) -> AsyncIterator[Caches]:
    """One cache for each resource that is stored under its own name, all loaded before the block begins."""
    feeds = {backend: Feed(backend) for backend in stores.all()}
    stored = [one for one in strategies if one.stored_as is None]
    caches = {prefix_of(one.info): Cacher(feeds[stores.of(one.info)], collection_of(one)) for one in stored}
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(feed.run(), name="storage-feed") for feed in feeds.values()]
        try:
            for cache in caches.values():
                await _start(cache)
            for feed in feeds.values():
                feed.forget_recent()
            yield Caches(caches, lambda info: feeds[stores.of(info)])
        finally:
            for task in following:
                task.cancel()


async def _start(cache: Cacher) -> None:
    """Load a cache. A KMS plugin that does not answer is waited for: without its key nothing true can be said of its objects."""
    while True:
        try:
            return await cache.start()
        except KeyUnavailableError as error:
            cache.close()
            _log.warning("storage: waiting for a key", err=error)
            await asyncio.sleep(KEY_SECONDS)
