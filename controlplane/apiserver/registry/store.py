"""The generic registry: the life of every object, told apart by strategies. Called by ``endpoints``, calls an ObjectStore.

Order of a write, upstream's: the endpoint has decoded, defaulted and run mutating admission; here the strategy prepares and
validates, validating admission (handed in as a function) has its say, allocations are claimed, and one transaction stores
object and allocations together. Updates are guaranteed: they start over on the newest object when another writer was faster.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from apimachinery import errors, names
from apimachinery.patch.apply import same_but_for_times
from controlplane.apiserver.registry import deletion, naming, update
from controlplane.apiserver.registry import metadata as rules
from controlplane.apiserver.registry.conversion import converted, converted_list, converting_watch
from controlplane.apiserver.registry.deletion import Outcome
from controlplane.apiserver.registry.entries import PlainEntry
from controlplane.apiserver.registry.strategy import Context, Strategy
from controlplane.apiserver.registry.update import SPEC, Write
from controlplane.apiserver.storage.interface import (
    Condition,
    ConditionFailedError,
    Entry,
    KeyExistsError,
    ListOptions,
    ListResult,
    ObjectStore,
    Operation,
    Watch,
    WatchOptions,
)

Object = dict[str, Any]
Admit = Callable[[Object, Object | None], Awaitable[None]]
"""Validating admission: ``await admit(new, old)`` raises to refuse."""
Change = Callable[[Object], Awaitable[Object | None]]
"""From a copy of the stored object to the wanted one; None leaves it as it is."""

_TRIES = 1_000  # lost races before a writer is told to come back; somebody wins each, so upstream sets no bound at all
CACHED = "0"  # the resourceVersion that asks for what the cache holds, however old
_NAME_TRIES = 8  # generated names that were taken


class _RacedError(Exception):
    """Another writer was faster; start over on the newest object, which is at least at ``version`` when that is known."""

    def __init__(self, version: str = "") -> None:
        super().__init__(version)
        self.version = version


async def _settled(raced: _RacedError) -> str:
    """The version from which to read again. The cache may not have heard of the winner yet: give its feed a turn."""
    await asyncio.sleep(0)
    return raced.version


def _names_a_version(obj: Object) -> bool:
    """Whether a resourceVersion is set that could be one."""
    version = obj["metadata"].get("resourceVersion") or ""
    return version.isdecimal() and version.strip("0") != ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """``gone`` is false while a grace period or finalizers are left; ``entry`` is then the marked object."""

    entry: Entry
    gone: bool


class Store:
    """Objects of one resource. Raises StatusError, worded for the resource."""

    def __init__(
        self,
        strategy: Strategy,
        objects: ObjectStore,
        choose: Callable[[Sequence[str]], str] = random.choice,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.strategy, self.info = strategy, strategy.info
        self.objects = objects
        self.prefix = naming.prefix_of(strategy.stored_as or strategy.info)
        self._choose, self._new_uid = choose, new_uid
        self._converts = strategy.stored_as is not None

    # ------------------------------------------------------------------ reading

    def key(self, namespace: str, name: str) -> str:
        return naming.key(self.prefix, self.info.namespaced, namespace, name)

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Entry:
        try:
            entry = await self.objects.get(self.key(namespace, name), resource_version)
        except KeyError:
            raise self.not_found(name) from None
        return await self.shown(entry) if self._converts else entry

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        found = await self.objects.list(naming.collection(self.prefix, namespace), options)
        if not self._converts:
            return found
        return converted_list(found, self.strategy)

    async def watch(self, namespace: str, options: WatchOptions) -> Watch:
        watch = await self.objects.watch(naming.collection(self.prefix, namespace), options)
        return converting_watch(watch, self.strategy)

    # ------------------------------------------------------------------ versions

    async def shown(self, entry: Entry) -> Entry:
        """A stored object in the strategy's own version."""
        return converted(entry, self.strategy)

    async def kept(self, obj: Object) -> Object:
        """An object of the strategy's own version in the form that is stored."""
        return self.strategy.to_stored(obj)

    def is_current(self, entry: Entry) -> bool:
        """Whether the object is stored in the form in which it would be stored now."""
        return True

    # ------------------------------------------------------------------ creating

    async def create(self, ctx: Context, obj: Object, admit: Admit) -> Entry:
        """Store a new object; ``obj`` is defaulted and admitted, and is changed here."""
        stale = _names_a_version(obj) and not ctx.dry_run
        rules.fill_system_fields(obj, ctx.namespace if self.info.namespaced else "", self._new_uid(), ctx.now)
        generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
        if generated:
            obj["metadata"]["name"] = names.generate(obj["metadata"]["generateName"], self._choose)
        self._prepare_for_create(ctx, obj)
        await admit(obj, None)
        if stale:  # upstream's storage says so, in a Status without a reason
            raise errors.StatusError(errors.make_status(500, "", "resourceVersion should not be set on objects to be created"))
        for attempt in range(_NAME_TRIES):
            try:
                return await self._insert(ctx, obj)
            except KeyExistsError:
                if not generated or attempt == _NAME_TRIES - 1:
                    raise await self._already_exists(ctx, obj["metadata"]) from None
                obj["metadata"]["name"] = names.generate(obj["metadata"]["generateName"], self._choose)
        raise AssertionError("unreachable")

    def _prepare_for_create(self, ctx: Context, obj: Object) -> None:
        strategy = self.strategy
        if strategy.has_status:
            obj.pop("status", None)
        if strategy.has_generation:
            obj["metadata"]["generation"] = 1
        strategy.disabled_fields.drop(obj, None)
        strategy.prepare_for_create(ctx, obj)
        found = rules.validate(obj, self.info.namespaced, strategy.name_is_valid, any_finalizer=strategy.any_finalizer)
        found += strategy.validate(ctx, obj)
        if found:
            raise errors.invalid(self.info.gvk.kind, obj["metadata"].get("name") or "", found, self.info.gvk.group)
        ctx.warnings.extend(strategy.warnings(ctx, obj, None))
        strategy.canonicalize(obj)

    async def _insert(self, ctx: Context, obj: Object) -> Entry:
        strategy = self.strategy
        key = self.key(ctx.namespace, obj["metadata"]["name"])
        for _ in range(_TRIES):
            allocation = await strategy.allocate(ctx, obj, None)
            if ctx.dry_run:
                return await self._pretend_insert(key, obj)
            stored = await self.kept(obj) if self._converts else obj
            try:
                entry = await self.objects.create(
                    key, stored, ttl=strategy.ttl, conditions=allocation.conditions, also=allocation.operations
                )
            except ConditionFailedError:
                continue
            return await self.shown(entry) if self._converts else entry
        raise errors.server_timeout(self.info.plural, "create", 1, self.info.gvk.group)

    async def _already_exists(self, ctx: Context, meta: Object) -> errors.StatusError:
        name, generated = meta["name"], bool(meta.get("generateName"))
        try:
            there = (await self.objects.get(self.key(ctx.namespace, name))).decode()["metadata"]
        except KeyError:
            there = {}
        return errors.already_exists(
            self.info.plural, name, self.info.gvk.group, generated=generated, leaving=bool(there.get("deletionTimestamp"))
        )

    async def _pretend_insert(self, key: str, obj: Object) -> Entry:
        try:
            await self.objects.get(key)
        except KeyError:
            return PlainEntry(key, 0, obj)
        raise KeyExistsError(key)

    # ------------------------------------------------------------------ updating

    async def update(
        self, ctx: Context, change: Change, admit: Admit, write: Write = SPEC, on_missing: Change | None = None
    ) -> tuple[Entry, bool]:
        """Guaranteed update of ``ctx.name``. True beside the entry when it had to be created.

        ``on_missing`` makes the object where none exists (server-side apply); without it that is a 404.

        It begins with what the cache holds, as upstream does: the write itself proves that this was the newest. What ends
        without a write, a refusal or nothing to do, counts only for an object that was asked for.
        """
        key, version = self.key(ctx.namespace, ctx.name), "" if ctx.dry_run else CACHED
        for _ in range(_TRIES):
            try:
                entry = await self.objects.get(key, version)
            except KeyError:
                if version == CACHED:
                    version = ""
                    continue
                if on_missing is None:
                    raise self.not_found(ctx.name) from None
                made = await on_missing({})
                if made is None:
                    raise self.not_found(ctx.name) from None
                return await self.create(ctx, made, admit), True
            try:
                return await self._update_once(ctx, entry, change, admit, write, may_be_old=version == CACHED), False
            except _RacedError as raced:
                version = await _settled(raced)
            except errors.StatusError as refusal:
                # what is not a refusal may have been written: to begin again would be to do it twice
                if version != CACHED or refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR or not await self._is_old(entry):
                    raise
                version = ""
        raise errors.server_timeout(self.info.plural, ctx.verb, 1, self.info.gvk.group)

    async def _is_old(self, entry: Entry) -> bool:
        """Whether the object has changed since, or is gone."""
        try:
            return (await self.objects.get(entry.key)).revision != entry.revision
        except KeyError:
            return True

    async def _update_once(
        self, ctx: Context, entry: Entry, change: Change, admit: Admit, write: Write, *, may_be_old: bool
    ) -> Entry:
        shown = await self.shown(entry) if self._converts else entry
        old = shown.decode()
        new = await change(shown.decode())
        if new is None:
            if may_be_old and await self._is_old(entry):
                raise _RacedError
            return shown
        update.prepare(self.strategy, ctx, new, old, write)
        await admit(new, old)
        if deletion.ready_to_go(new) and self.strategy.may_remove(new):
            if not ctx.dry_run:
                await self._remove(entry)
            return PlainEntry(entry.key, entry.revision, new)
        return await self._replace(ctx, entry, old, new)

    async def _replace(self, ctx: Context, entry: Entry, old: Object, new: Object) -> Entry:
        strategy = self.strategy
        allocation = await strategy.allocate(ctx, new, old)
        if ctx.dry_run:
            return PlainEntry(entry.key, entry.revision, new)
        stored = await self.kept(new) if self._converts else new

        unchanged = same_but_for_times(old, new) and self.is_current(entry)

        def replace(current: Object) -> Object | None:
            if (version := current["metadata"].get("resourceVersion")) != str(entry.revision):
                raise _RacedError(version)
            return None if unchanged else stored

        def plan(_: Object, __: Object) -> tuple[Sequence[Condition], Sequence[Operation]]:
            return allocation.conditions, allocation.operations

        try:
            result = await self.objects.update(entry.key, replace, ttl=strategy.ttl, plan=plan)
        except (ConditionFailedError, KeyError):
            raise _RacedError from None
        return await self.shown(result) if self._converts else result

    # ------------------------------------------------------------------ deleting

    async def delete(self, ctx: Context, options: Object, admit: Admit) -> Deleted:
        """Remove the object, or mark it when a grace period or finalizers stand before that."""
        deletion.validate_options(options)
        key, version = self.key(ctx.namespace, ctx.name), ""
        for _ in range(_TRIES):
            try:
                entry = await self.objects.get(key, version)
            except KeyError:
                raise self.not_found(ctx.name) from None
            try:
                return await self._delete_once(ctx, entry, dict(options), admit)
            except _RacedError as raced:
                version = await _settled(raced)
        raise errors.server_timeout(self.info.plural, "delete", 1, self.info.gvk.group)

    async def _delete_once(self, ctx: Context, entry: Entry, options: Object, admit: Admit) -> Deleted:
        shown = await self.shown(entry) if self._converts else entry
        old = shown.decode()
        deletion.check_preconditions(
            options, old, lambda why: errors.conflict(self.info.gvk.kind, ctx.name, why, self.info.gvk.group)
        )
        await admit(old, None)
        new = shown.decode()
        outcome = self._decide(ctx, new, old, options)
        if outcome is Outcome.KEEP:
            return Deleted(shown, False)
        if outcome is Outcome.REMOVE:
            if not ctx.dry_run:
                await self._remove(entry)
            return Deleted(PlainEntry(entry.key, entry.revision, new), True)
        return Deleted(await self._replace(ctx, entry, old, new), False)

    def _decide(self, ctx: Context, new: Object, old: Object, options: Object) -> Outcome:
        strategy = self.strategy
        if not deletion.mark(new, options, ctx.now, lambda obj, wish: strategy.begin_delete(ctx, obj, wish)):
            return Outcome.KEEP
        deletion.set_collection_finalizers(new, options, strategy.orphan_by_default)
        strategy.finalizers_for_delete(new, options)
        meta = new["metadata"]
        if not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds") and strategy.may_remove(new):
            return Outcome.REMOVE
        deletion.mark_now(new, ctx.now)
        return Outcome.KEEP if new == old else Outcome.MARK

    async def _remove(self, entry: Entry) -> None:
        def unchanged(current: Object) -> None:
            if (version := current["metadata"].get("resourceVersion")) != str(entry.revision):
                raise _RacedError(version)

        released = self.strategy.release(entry.decode())
        try:
            await self.objects.delete(entry.key, unchanged, also=released)
        except KeyError:
            raise _RacedError from None

    # ------------------------------------------------------------------ words

    def not_found(self, name: str) -> errors.StatusError:
        return errors.not_found(self.info.plural, name, self.info.gvk.group)
