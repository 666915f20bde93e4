"""One stream of changes from etcd that breaks, goes on elsewhere, and never loses an event unnoticed. Made by ``backend``.

A watch of *every* key sees each revision, because a revision is a transaction that changed something. So its position is
exact progress without any progress notification (which are unreliable before etcd 3.4.31 and 3.5.13), and a revision
that is skipped is an event that etcd lost (its issue #18089: a deletion at the compacted revision, in versions before 3.4.34
and 3.5.15). Then the stream begins again where it was; when the event does not come then either, CompactedError tells the
reader to start over from the present.

A stream that is only slow or dead shows no gap: ``backend`` compares its position with etcd's revision every second and
calls :meth:`Watch.restart`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from component import logs
from controlplane.apiserver.storage.backends.etcd import failures
from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb
from controlplane.apiserver.storage.backends.etcd.keys import WHOLE, Keys
from controlplane.apiserver.storage.backends.etcd.members import Member, Members
from controlplane.apiserver.storage.interface import BackendEvent, CompactedError, StorageUnavailableError

_PAUSE = 0.05  # seconds between two tries
_OPENING = 1.0  # seconds for a member to confirm a watch
_DELETE = pb.Event.DELETE

_log = logs.get(__name__)


class DeniedError(StorageUnavailableError):
    """etcd's access control does not let this client watch what was asked for."""


class Watch:
    """``position``: every event up to there has been handed out. Revisions here are etcd's own."""

    def __init__(self, members: Members, keys: Keys, span: tuple[bytes, bytes], after: int) -> None:
        self._members, self._keys, self._span = members, keys, span
        self.position = after
        self.whole = span == (WHOLE, WHOLE)
        self._call: Any = None
        self._stale = False
        self._gap_at = 0
        self.closed = False

    def restart(self) -> None:
        """Take up the stream again, on another member if there is one."""
        self._stale = True
        if self._call is not None:
            self._call.cancel()

    def close(self) -> None:
        self.closed = True
        self.restart()

    async def batches(self) -> AsyncIterator[Sequence[BackendEvent]]:
        """Raises CompactedError, DeniedError; everything else is tried again for ever."""
        while not self.closed:
            member = self._members.pick()
            why = "the stream ended"
            try:
                async for events in self._stream(member):
                    yield events
            except grpc.aio.AioRpcError as error:
                why = failures.understand(error).text or error.code().name
            except (TimeoutError, StorageUnavailableError) as error:
                if isinstance(error, DeniedError):
                    raise
                why = str(error) or "no answer"
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # nobody cancelled us: gRPC says so of a stream whose channel was closed for one with renewed certificates
                why = "it fell behind" if self._stale else "the connection was replaced"
            if self.closed:
                return
            self._stale = False
            _log.v(2, "etcd watch begins again", url=member.where.url, after=self.position, err=why)
            await self._members.note_failure(member, f"watch: {why}")
            await asyncio.sleep(_PAUSE)

    async def _stream(self, member: Member) -> AsyncIterator[Sequence[BackendEvent]]:
        async with self._members.stream(member, "Watch", "Watch") as call:
            self._call = call
            try:
                async with asyncio.timeout(_OPENING):
                    await call.write(pb.WatchRequest(create_request=self._request()))
                    response = await call.read()
                while response is not grpc.aio.EOF:
                    self._check(response)
                    if response.events:
                        member.worked()
                        if (events := self._advance(response.events)) is None:
                            return
                        yield events
                    response = await call.read()
            finally:
                self._call = None

    def _request(self) -> pb.WatchCreateRequest:
        first, end = self._span
        # the previous value is worth its bytes only to those who have no cache
        return pb.WatchCreateRequest(key=first, range_end=end, start_revision=self.position + 1, prev_kv=not self.whole)

    def _check(self, response: pb.WatchResponse) -> None:
        if not response.canceled:
            return
        if response.compact_revision:
            raise CompactedError(self.position, response.compact_revision)
        if failures.DENIED in response.cancel_reason:
            raise DeniedError(f"etcd: watch: {response.cancel_reason}")
        raise StorageUnavailableError(f"etcd: watch: {response.cancel_reason or 'cancelled'}")

    def _advance(self, events: Sequence[pb.Event]) -> list[BackendEvent] | None:
        """The events as storage has them; None when one before them is missing."""
        position = self.position
        if self.whole:
            for event in events:
                revision = event.kv.mod_revision
                if revision > position + 1:
                    self._miss(position, revision)
                    return None
                position = max(position, revision)
        made = [_event(self._keys, event, whole=self.whole) for event in events if event.kv.mod_revision > self.position]
        if made:
            self.position = made[-1].revision
        return made or None

    def _miss(self, position: int, found: int) -> None:
        """First ask again from before the gap; what is missing a second time is gone."""
        if self._gap_at == position:
            _log.warning("etcd has lost a watch event (its issue #18089); starting over", after=position, found=found)
            raise CompactedError(self.position, found - 1)
        self._gap_at = position
        _log.warning("etcd skipped a revision in a watch; asking again", after=position, found=found)


def _event(keys: Keys, event: pb.Event, *, whole: bool) -> BackendEvent:
    kv = event.kv
    revision = kv.mod_revision
    previous = event.prev_kv.mod_revision
    if whole:  # what the key held before is what it held just before
        previous = 0 if event.type != _DELETE and kv.create_revision == revision else revision - 1
    key = keys.inner(kv.key)
    if event.type == _DELETE:
        return BackendEvent(key, None, revision, event.prev_kv.create_revision, previous)
    return BackendEvent(key, kv.value, revision, kv.create_revision, previous)


async def oldest_kept(members: Members, keys: Keys, asked: int) -> int:
    """The compacted revision that a read at ``asked`` met; etcd tells it to watches only."""
    watch = Watch(members, keys, keys.span("/registry/"), max(asked - 1, 0))
    with suppress(TimeoutError, StorageUnavailableError):
        try:
            async with asyncio.timeout(_OPENING):
                async for _ in watch.batches():
                    break
        except CompactedError as error:
            return error.compacted
    return asked
