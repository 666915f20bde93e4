"""An update begins with what a cache holds, which may be old: what it says must be true of the newest object all the same."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from apimachinery import errors
from apimachinery.errors import StatusError
from controlplane.apiserver.authentication.interface import ANONYMOUS
from controlplane.apiserver.kinds.core.configmap import ConfigMapStrategy
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.registry.traits import collection_of
from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.objects import PlainStore

Object = dict[str, Any]
KEY = "/registry/configmaps/default/a"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Behind(PlainStore):
    """Whoever takes what there is gets ``old``, as from the cache of a server that has not heard of the last write."""

    old: StoredEntry | None = None
    asked = 0

    async def get(self, key: str, resource_version: str = "") -> StoredEntry:
        if resource_version == "0":
            if self.old is None:
                raise KeyError(key)
            return self.old
        self.asked += 1
        return await super().get(key, resource_version)


async def nobody_objects(new: Object, old: Object | None) -> None:
    return None


def context(*, dry_run: bool = False) -> Context:
    return Context(ANONYMOUS, "default", "a", "update", NOW, dry_run=dry_run)


def _numbered(number: str, obj: Object) -> Object:
    return {**obj, "data": {"n": number}}


@pytest.fixture
async def store() -> Store:
    """One object with three versions; the cache knows the first."""
    strategy = ConfigMapStrategy()
    objects = Behind(MemoryBackend(), collection_of(strategy))
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "data": {"n": "1"},
    }
    objects.old = await objects.create(KEY, made)
    for number in ("2", "3"):
        await objects.update(KEY, partial(_numbered, number))
    objects.asked = 0
    return Store(strategy, objects)


async def update(store: Store, change: Callable[[Object], Awaitable[Object | None]], *, dry_run: bool = False) -> Object:
    entry, _ = await store.update(context(dry_run=dry_run), change, nobody_objects)
    return entry.decode()


async def add(obj: Object) -> Object:
    return {**obj, "data": {**obj["data"], "more": "yes"}}


async def test_the_write_starts_over_from_the_newest(store: Store) -> None:
    assert (await update(store, add))["data"] == {"n": "3", "more": "yes"}


async def test_an_up_to_date_cache_spares_the_question(store: Store) -> None:
    objects = store.objects
    assert isinstance(objects, Behind)
    objects.old = await PlainStore.get(objects, KEY)
    assert (await update(store, add))["data"] == {"n": "3", "more": "yes"}
    assert objects.asked <= 1, "the write itself reads once, where there is no cache"


async def test_nothing_to_do_is_said_of_the_newest(store: Store) -> None:
    async def leave(obj: Object) -> Object | None:
        return None

    assert (await update(store, leave))["data"] == {"n": "3"}


async def test_no_change_is_said_of_the_newest(store: Store) -> None:
    async def same(obj: Object) -> Object:
        return obj

    assert (await update(store, same))["data"] == {"n": "3"}


async def test_only_the_newest_can_be_refused(store: Store) -> None:
    async def refuse_old(obj: Object) -> Object:
        if obj["data"]["n"] != "3":
            raise errors.conflict("ConfigMap", "a", "too old", "")
        return await add(obj)

    assert (await update(store, refuse_old))["data"]["more"] == "yes"


async def test_a_refusal_of_the_newest_stands(store: Store) -> None:
    seen = []

    async def refuse(obj: Object) -> Object:
        seen.append(obj["data"]["n"])
        raise errors.conflict("ConfigMap", "a", "never", "")

    with pytest.raises(StatusError, match="never"):
        await update(store, refuse)
    assert seen == ["1", "3"]


@pytest.mark.parametrize("code", [500, 503, 504])
@pytest.mark.parametrize("written", [False, True])
async def test_a_write_of_unknown_outcome_is_not_made_again(store: Store, code: int, written: bool) -> None:
    """Its own change makes the cached object an old one; found by ``tests/robustness`` with members of etcd cut off."""
    tried = 0
    objects = store.objects
    assert isinstance(objects, Behind)
    objects.old = await PlainStore.get(objects, KEY)
    update_really = objects.update

    async def lose_the_answer(key: str, change: Any, **options: Any) -> StoredEntry:
        nonlocal tried
        tried += 1
        if written:
            await update_really(key, change, **options)
        else:
            await update_really(key, lambda obj: {**obj, "data": {"n": "somebody else's"}})
        raise StatusError(errors.make_status(code, "Timeout", "nobody knows"))

    objects.update = lose_the_answer  # type: ignore[method-assign]
    with pytest.raises(StatusError, match="nobody knows"):
        await update(store, add)
    assert tried == 1


async def test_what_the_cache_does_not_know_is_asked_for(store: Store) -> None:
    assert isinstance(store.objects, Behind)
    store.objects.old = None
    assert (await update(store, add))["data"] == {"n": "3", "more": "yes"}


async def test_what_is_gone_is_gone(store: Store) -> None:
    await store.objects.delete(KEY)
    with pytest.raises(StatusError, match="not found"):
        await update(store, add)


async def test_a_dry_run_is_of_the_newest(store: Store) -> None:
    assert (await update(store, add, dry_run=True))["data"] == {"n": "3", "more": "yes"}
