"""The backend over etcd: see ``Backend``. Several API servers may work on one etcd, so nothing is known without asking.

Made by ``assembly.storage``; ``members`` calls, ``watch`` follows. A write is one transaction of etcd; it is made again
after a failure whose outcome is unknown only where its own conditions make a second time harmless.

``current_revision`` is what makes reads from a cache consistent: one linearizable read serves everybody who asks while the
one before is under way, and the cache waits until its watch has come that far.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from component import logs
from controlplane.apiserver.storage.backends.etcd import failures
from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb
from controlplane.apiserver.storage.backends.etcd.compaction import Compactor
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig, checked
from controlplane.apiserver.storage.backends.etcd.keys import WHOLE, Keys
from controlplane.apiserver.storage.backends.etcd.leases import Leases
from controlplane.apiserver.storage.backends.etcd.members import ATTEMPT_SECONDS, CALL_SECONDS, CallError, Members
from controlplane.apiserver.storage.backends.etcd.watch import DeniedError, Watch, oldest_kept
from controlplane.apiserver.storage.backends.ledger import check_distinct
from controlplane.apiserver.storage.interface import (
    BackendEvent,
    Commit,
    CompactedError,
    Condition,
    Delete,
    FutureRevisionError,
    KeyValue,
    Operation,
    OutcomeUnknownError,
    Put,
    Range,
    StorageUnavailableError,
)

START_SECONDS = 20.0  # to wait for etcd at the start, as upstream
WATCH_CHECK = 1.0  # seconds between two looks whether watches keep up
SIZE_EVERY = 30.0  # upstream's --etcd-db-metric-poll-interval
RANGE_ATTEMPT = 3.0  # a large range takes longer than a key
WRITE_ATTEMPT = 0.7  # after which a write that can be repeated is: it may have got lost on its way to a leader that died
WRITE_PAUSE = 0.05
OFFSET_KEY = "/registry/pybernetes.io/revision-offset"
RESTORING = b"restoring"  # its value while a snapshot is filled in
MARK_KEY = "/registry/pybernetes.io/progress"

_log = logs.get(__name__)


class EtcdBackend:
    """Made by :meth:`open`, on the loop that will use it."""

    exclusive = False

    def __init__(self, config: EtcdConfig) -> None:
        self._config, self._keys = config, Keys(config.prefix)
        self._members = Members(config)
        self._loop = asyncio.get_running_loop()
        self._leases = Leases(self._grant, config.lease_reuse, self._loop.time)
        self._watches: set[Watch] = set()
        self._gone_back = False
        self._narrow = False  # access control shows us our prefix only, so revisions of others cannot be waited for
        self._offset = 0  # what our revisions are ahead of etcd's, since a snapshot was restored
        self._compacted = 0
        self._size: int | None = None
        self._reading: asyncio.Task[int] | None = None
        self._next_reading: asyncio.Task[int] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, config: EtcdConfig, *, restoring: bool = False) -> "EtcdBackend":
        """``restoring``: to fill an empty store from a snapshot, in etcd's own revisions.

        Raises ValueError for bad settings; StorageUnavailableError when etcd does not answer for ``START_SECONDS``, and when
        a restore has not come to its end.
        """
        backend = cls(checked(config))
        try:
            if not restoring:
                await backend._load_offset()
        except BaseException:
            await backend._members.close()
            raise
        backend._keeper = asyncio.create_task(backend._keep(), name="etcd-keeper")
        return backend

    # ------------------------------------------------------------------ reads

    async def current_revision(self) -> int:
        """Of a read that begins after this call did."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_revision(), name="etcd-revision")
            return await asyncio.shield(self._reading)
        # the read under way may have begun too early; everybody who asks meanwhile shares the one after it
        if self._next_reading is None or self._next_reading.done():
            self._next_reading = asyncio.create_task(self._read_after(self._reading), name="etcd-revision")
        return await asyncio.shield(self._next_reading)

    async def _read_after(self, before: "asyncio.Task[int]") -> int:
        await asyncio.wait((before,))
        self._reading, self._next_reading = self._next_reading, None
        return await self._read_revision()

    async def _read_revision(self) -> int:
        if self._narrow:
            return (await self.commit((), (Put(MARK_KEY, b"-"),))).revision
        request = pb.RangeRequest(key=self._keys.root + b"/", count_only=True)
        return int((await self._call("KV", "Range", request, safe=True)).header.revision) + self._offset

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        request = pb.RangeRequest(key=self._keys.outer(key), revision=self._inner(revision))
        response = await self._range(request, revision, ATTEMPT_SECONDS)
        return self._item(response.kvs[0]) if response.kvs else None

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        first, end = self._keys.span(prefix)
        if start > prefix:
            first = self._keys.outer(start)
        response = await self._range(
            pb.RangeRequest(key=first, range_end=end, revision=self._inner(revision), limit=limit), revision
        )
        items = [self._item(kv) for kv in response.kvs]
        return Range(
            items, revision or int(response.header.revision) + self._offset, response.more, int(response.count) - len(items)
        )

    async def _range(self, request: pb.RangeRequest, revision: int, attempt: float = RANGE_ATTEMPT) -> Any:
        try:
            handled = (failures.COMPACTED, failures.FUTURE)
            return await self._call("KV", "Range", request, safe=True, attempt=attempt, handled=handled)
        except CallError as error:
            if error.failure.says(failures.FUTURE):
                raise FutureRevisionError(f"revision {revision} is in the future") from None
            self._compacted = max(self._compacted, await oldest_kept(self._members, self._keys, request.revision) + self._offset)
            raise CompactedError(revision, self._compacted) from None

    def _item(self, kv: pb.KeyValue) -> KeyValue:
        return KeyValue(self._keys.inner(kv.key), kv.value, kv.create_revision + self._offset, kv.mod_revision + self._offset)

    def _inner(self, revision: int) -> int:
        """etcd's number for a revision of ours (0: now)."""
        if not revision:
            return 0
        if revision <= self._offset or revision < self._compacted:
            raise CompactedError(revision, max(self._compacted, self._offset + 1))
        return revision - self._offset

    async def stored(self, prefix: str, revision: int, page: int) -> AsyncIterator[Sequence[pb.KeyValue]]:
        """Everything under ``prefix`` at one revision, as etcd has it (see ``name``, ``offset``), in pages."""
        first, end = self._keys.span(prefix)
        while True:
            request = pb.RangeRequest(key=first, range_end=end, revision=self._inner(revision), limit=page)
            response = await self._range(request, revision)
            if response.kvs:
                yield response.kvs
            if not response.more:
                return
            first = response.kvs[-1].key + b"\0"

    def name(self, key: bytes) -> str:
        """How storage calls a key of etcd's."""
        return self._keys.inner(key)

    @property
    def offset(self) -> int:
        """What our revisions are ahead of etcd's."""
        return self._offset

    async def call(self, service: str, name: str, request: Any) -> Any:
        """A call to etcd that changes nothing."""
        return await self._call(service, name, request, safe=True)

    # ------------------------------------------------------------------ writes

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        check_distinct(operations)
        request = pb.TxnRequest(
            compare=[self._compare(condition) for condition in conditions],
            success=[await self._operation(operation) for operation in operations],
            failure=[
                pb.RequestOp(request_range=pb.RangeRequest(key=self._keys.outer(condition.key))) for condition in conditions
            ],
        )
        try:
            if repeatable(conditions, operations):
                return await self._commit_repeatedly(request, conditions, operations)
            return self._outcome(await self._txn(request, CALL_SECONDS), conditions)
        except CallError:
            for one in request.success:
                self._leases.forget(one.request_put.lease)
            return await self.commit(conditions, operations)

    async def _commit_repeatedly(
        self, request: pb.TxnRequest, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> Commit:
        deadline, attempt = self._loop.time() + CALL_SECONDS, WRITE_ATTEMPT
        doubt: OutcomeUnknownError | None = None
        while True:
            try:
                outcome = self._outcome(await self._txn(request, attempt), conditions)
            except OutcomeUnknownError as error:
                if self._loop.time() > deadline:
                    raise
                doubt, attempt = error, attempt * 1.3
                await asyncio.sleep(WRITE_PAUSE)
                continue
            if outcome.succeeded or doubt is None:
                return outcome
            if (revision := done_before(conditions, operations, outcome)) is None:
                raise doubt
            return Commit(True, revision)

    async def _txn(self, request: pb.TxnRequest, attempt: float) -> pb.TxnResponse:
        """Raises CallError when a lease is gone."""
        response: pb.TxnResponse = await self._call(
            "KV", "Txn", request, safe=False, attempt=attempt, handled=(failures.NO_LEASE,)
        )
        return response

    def _outcome(self, response: pb.TxnResponse, conditions: Sequence[Condition]) -> Commit:
        revision = int(response.header.revision) + self._offset
        if response.succeeded:
            return Commit(True, revision)
        found = [one.response_range.kvs for one in response.responses]
        return Commit(False, revision, tuple(self._item(kvs[0]) if kvs else None for kvs in found[: len(conditions)]))

    def _compare(self, condition: Condition) -> pb.Compare:
        # a revision from before the offset names a state that a restored snapshot does not have: nothing may equal it
        revision = condition.revision - self._offset if condition.revision else 0
        wanted = revision if not condition.revision or revision > 0 else -1
        return pb.Compare(
            result=pb.Compare.EQUAL, target=pb.Compare.MOD, key=self._keys.outer(condition.key), mod_revision=wanted
        )

    async def _operation(self, operation: Operation) -> pb.RequestOp:
        key = self._keys.outer(operation.key)
        if isinstance(operation, Delete):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        lease = await self._leases.get(operation.ttl) if operation.ttl else 0
        return pb.RequestOp(request_put=pb.PutRequest(key=key, value=operation.value, lease=lease))

    async def _grant(self, seconds: int) -> int:
        return int((await self._call("Lease", "LeaseGrant", pb.LeaseGrantRequest(TTL=seconds), safe=True)).ID)

    # ------------------------------------------------------------------ the stream of changes

    async def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        """As in ``Backend``; with prefix "" it also sees keys that are not ours, under an empty name."""
        if after < max(self._compacted, self._offset):
            raise CompactedError(after, max(self._compacted, self._offset))
        span = (WHOLE, WHOLE) if not prefix and not self._narrow else self._keys.span(prefix or "/registry/")
        watch = Watch(self._members, self._keys, span, after - self._offset)
        if self._closed:
            return
        self._watches.add(watch)
        try:
            async for events in watch.batches():
                yield events if not self._offset else [self._shifted(event) for event in events]
        except CompactedError as error:
            self._compacted = max(self._compacted, error.compacted + self._offset)
            raise CompactedError(error.asked + self._offset, error.compacted + self._offset) from None
        except DeniedError:
            if prefix or self._narrow:
                raise
            _log.warning(
                "etcd lets this client see its own prefix only: consistent reads cost a write", prefix=self._config.prefix
            )
            self._narrow = True
            raise
        finally:
            self._watches.discard(watch)

    def _shifted(self, event: BackendEvent) -> BackendEvent:
        by = self._offset
        created = event.create_revision + by if event.create_revision else 0
        previous = event.previous_revision + by if event.previous_revision else 0
        return BackendEvent(event.key, event.value, event.revision + by, created, previous)

    async def compact(self, revision: int) -> None:
        try:
            request = pb.CompactionRequest(revision=self._inner(revision))
            await self._call("KV", "Compact", request, safe=True, handled=(failures.COMPACTED, failures.FUTURE))
        except CompactedError:
            return
        except CallError as error:
            if error.failure.says(failures.FUTURE):
                raise FutureRevisionError(f"revision {revision} is in the future") from None
            return
        self._compacted = max(self._compacted, revision)

    # ------------------------------------------------------------------ upkeep, and the end

    async def _keep(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_after_watches(), name="etcd-watches")
            tasks.create_task(self._measure(), name="etcd-size")
            if self._config.compact_every:
                tasks.create_task(self._compact_periodically(), name="etcd-compaction")

    async def _look_after_watches(self) -> None:
        """A watch of everything must come to where etcd was a second ago; one that does not is begun again."""
        while True:
            await asyncio.sleep(WATCH_CHECK)
            watching = [watch for watch in self._watches if watch.whole]
            if not watching:
                continue
            with suppress(StorageUnavailableError):
                seen = max(watch.position for watch in watching)
                target = await self.current_revision() - self._offset
                if target < seen:
                    self._went_back(seen, target)
                before = {watch: watch.position for watch in watching if watch.position < target}
                if not before:
                    continue
                await asyncio.sleep(WATCH_CHECK)
                for watch, position in before.items():
                    if watch.position == position:
                        _log.warning("etcd watch does not move; beginning it again", position=position, revision=target)
                        watch.restart()

    def _went_back(self, seen: int, found: int) -> None:
        """Nothing that is cached can be trusted, here or in clients: the process must begin anew, from what there is."""
        _log.error(
            "etcd's revision went backwards: its data was replaced by an older state (or by issue #17780); this process stops, "
            "so that every cache begins anew",
            seen=seen,
            found=found,
        )
        if not self._gone_back:
            self._gone_back = True
            self._stop_process()

    @staticmethod
    def _stop_process() -> None:
        """Whoever supervises the process starts it again."""
        signal.raise_signal(signal.SIGTERM)

    async def _measure(self) -> None:
        while True:
            sizes = [answer.dbSize for answer in await self._members.each("Maintenance", "Status", pb.StatusRequest())]
            self._size = max(sizes, default=self._size)
            await asyncio.sleep(SIZE_EVERY)

    async def _compact_periodically(self) -> None:
        compactor = Compactor(self._members)
        while True:
            try:
                if done := await compactor.tick():
                    self._compacted = max(self._compacted, done + self._offset)
                    _log.v(1, "Compacted etcd", revision=done)
            except StorageUnavailableError as error:
                _log.warning("etcd could not be compacted, it will be tried again", err=error)
            await asyncio.sleep(self._config.compact_every)

    def size(self) -> int | None:
        """Of the largest member's database, measured every half minute."""
        return self._size

    async def close(self) -> None:
        """End every watch and close the connections. Idempotent."""
        self._closed = True
        for watch in list(self._watches):
            watch.close()
        tasks = [task for task in (self._keeper, self._reading, self._next_reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._members.close()

    async def _load_offset(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            held = await self._call(
                "KV", "Range", pb.RangeRequest(key=self._keys.outer(OFFSET_KEY)), safe=True, seconds=START_SECONDS
            )
        if held.kvs and held.kvs[0].value == RESTORING:
            raise StorageUnavailableError(
                f"etcd: a snapshot is being restored under {self._config.prefix}, or its restore was interrupted: wait for it, "
                "or empty the store and restore again"
            )
        self._offset = int(held.kvs[0].value) if held.kvs else 0

    async def _call(self, service: str, name: str, request: Any, *, safe: bool, **how: Any) -> Any:
        if self._closed:
            raise StorageUnavailableError("etcd: the connection is closed")
        return await self._members.call(service, name, request, safe=safe, **{"seconds": CALL_SECONDS, **how})


def repeatable(conditions: Sequence[Condition], operations: Sequence[Operation]) -> bool:
    """Whether the transaction makes its own conditions untrue, so that it can happen once only, and can be recognised."""
    expected = {condition.key: condition.revision for condition in conditions}
    return any(operation.key in expected and isinstance(operation, Put) for operation in operations)


def done_before(conditions: Sequence[Condition], operations: Sequence[Operation], outcome: Commit) -> int | None:
    """The revision at which a transaction went in whose repetition was refused; None when that cannot be told.

    A key that now holds the very bytes that were to be written was written by it; or by somebody who made the same of the
    same state, which for the writer is the same.
    """
    values = {operation.key: operation.value for operation in operations if isinstance(operation, Put)}
    written = [
        held
        for condition, held in zip(conditions, outcome.current, strict=True)
        if held is not None and held.value == values.get(condition.key) and held.mod_revision > condition.revision
    ]
    revisions = {held.mod_revision for held in written}
    changed = [condition.key for condition in conditions if condition.key in values]
    return revisions.pop() if len(revisions) == 1 and len(written) == len(changed) else None
