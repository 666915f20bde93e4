"""Connections to the members of one etcd cluster: which one is asked, and what happens when it does not answer.

Used by everything in this room. One channel per member instead of gRPC's own balancing: a call that fails is made again
elsewhere at once, unless it may have had an effect. Members are asked in the order of the list; one that failed is left
alone for a moment, and longer each time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from component import logs
from controlplane.apiserver.storage.backends.etcd import failures
from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2_grpc as stubs
from controlplane.apiserver.storage.backends.etcd.config import Endpoint, EtcdConfig, endpoint
from controlplane.apiserver.storage.backends.etcd.failures import Failure
from controlplane.apiserver.storage.interface import StorageUnavailableError

CALL_SECONDS = 10.0  # what a request to the API may wait for etcd, members and elections included
ATTEMPT_SECONDS = 0.4  # after which a read is tried elsewhere, too; a healthy member needs milliseconds
_AT_ONCE = 4  # attempts of one read
IN_FLIGHT = 500  # grpc.aio cancels calls at random near 2,000
_AVOID = (0.2, 5.0)  # seconds to leave a failed member alone, at first and at most
_BETWEEN_ROUNDS = 0.05  # seconds before all members are asked again
_LEADER = (("hasleader", "true"),)  # a member that has lost its leader says so instead of waiting for one

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),  # upstream's
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]

_log = logs.get(__name__)


class Member:
    """One server: its channel, its stubs, and since when it has been failing."""

    def __init__(self, where: Endpoint, config: EtcdConfig) -> None:
        self.where, self._config = where, config
        self.avoid_until = 0.0
        self._avoid = _AVOID[0]
        self._files: tuple[float, ...] = ()
        self._channel: grpc.aio.Channel | None = None
        self._stubs: dict[str, Any] = {}

    def method(self, service: str, name: str) -> Any:
        if self._channel is None:
            self._channel = self._open()
        stub = self._stubs.get(service)
        if stub is None:
            stub = self._stubs[service] = getattr(stubs, f"{service}Stub")(self._channel)
        return getattr(stub, name)

    def _open(self) -> grpc.aio.Channel:
        if not self.where.tls:
            return grpc.aio.insecure_channel(self.where.target, options=_OPTIONS)
        config = self._config
        self._files = self._times()
        credentials = grpc.ssl_channel_credentials(_read(config.ca), _read(config.key), _read(config.certificate))
        return grpc.aio.secure_channel(self.where.target, credentials, options=_OPTIONS)

    def failed(self, now: float) -> bool:
        """Leave it alone for a while; whether this is news."""
        news = now >= self.avoid_until
        self.avoid_until = now + self._avoid
        self._avoid = min(self._avoid * 2, _AVOID[1])
        return news

    def worked(self) -> None:
        self.avoid_until, self._avoid = 0.0, _AVOID[0]

    async def refresh(self) -> None:
        """After a failure: certificates may have been renewed, and gRPC reads them only when a channel is made."""
        if self._channel is not None and self.where.tls and self._times() != self._files:
            await self.close()

    async def close(self) -> None:
        channel, self._channel, self._stubs = self._channel, None, {}
        if channel is not None:
            await channel.close()

    def _times(self) -> tuple[float, ...]:
        files = (self._config.ca, self._config.certificate, self._config.key)
        return tuple(file.stat().st_mtime for file in files if file is not None and file.exists())


def _read(file: Path | None) -> bytes | None:
    return file.read_bytes() if file is not None else None


class Members:
    """Make it on the loop that will use it; close it at the end."""

    def __init__(self, config: EtcdConfig) -> None:
        self._members = [Member(endpoint(url), config) for url in config.servers]
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._now = asyncio.get_running_loop().time

    def pick(self) -> Member:
        """The first member that is not to be avoided; if all are, the one whose time is up first."""
        now = self._now()
        for member in self._members:
            if member.avoid_until <= now:
                return member
        return min(self._members, key=lambda member: member.avoid_until)

    async def call(
        self,
        service: str,
        name: str,
        request: Any,
        *,
        safe: bool,
        attempt: float = ATTEMPT_SECONDS,
        seconds: float = CALL_SECONDS,
        handled: Sequence[str] = (),
    ) -> Any:
        """One unary call. A failure that says one of ``handled`` is raised as CallError.

        ``safe`` ones may be made twice: after ``attempt`` seconds another member is asked as well, and the first answer counts.
        Others end after ``attempt`` seconds.

        :raises OutcomeUnknownError: an unsafe call may have been carried out or not.
        :raises StorageUnavailableError: no member answered in ``seconds``, or etcd refused.
        """
        deadline = self._now() + seconds
        async with self._slots:
            if deadline <= self._now():
                raise StorageUnavailableError("etcd: too many requests wait for an answer")
            asking = _Asking(self, service, name, request, deadline)
            try:
                while True:
                    member, answer = await (asking.first(attempt) if safe else asking.only(attempt))
                    if not isinstance(answer, Failure):
                        return answer
                    if any(answer.says(text) for text in handled):
                        raise CallError(answer)
                    again = answer.elsewhere and (safe or answer.not_done)
                    if not again or self._now() + _BETWEEN_ROUNDS >= deadline:
                        raise failures.raised(answer, member.where.url, safe=safe)
                    if asking.asked % len(self._members) == 0:
                        await asyncio.sleep(_BETWEEN_ROUNDS)
            finally:
                asking.stop()

    async def ask(self, member: Member, service: str, name: str, request: Any, timeout: float) -> Any:
        """The response, or the Failure."""
        return await self._attempt(member, service, name, request, timeout)

    def suspect(self, member: Member) -> None:
        """It has not answered for a while: others are asked first."""
        if member.failed(self._now()):
            _log.v(1, "etcd member is slow to answer", url=member.where.url)

    async def _attempt(self, member: Member, service: str, name: str, request: Any, timeout: float) -> Any:
        """The response, or the Failure."""
        try:
            response = await member.method(service, name)(request, timeout=timeout, metadata=_LEADER)
        except grpc.aio.AioRpcError as error:
            failure = failures.understand(error)
            if failure.elsewhere:
                await self.note_failure(member, failure.text or failure.code.name)
            return failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failures.REPLACED  # another call found renewed certificates and closed the channel
        except OSError as error:  # a certificate file
            raise StorageUnavailableError(f"etcd: {error}") from None
        member.worked()
        return response

    async def note_failure(self, member: Member, why: str) -> None:
        if member.failed(self._now()):
            _log.warning("etcd member does not answer as it should", url=member.where.url, err=why)
        await member.refresh()

    @asynccontextmanager
    async def stream(self, member: Member, service: str, name: str) -> AsyncIterator[Any]:
        """A bidirectional stream on ``member``; it is cancelled when the block ends. Raises AioRpcError."""
        try:
            call = member.method(service, name)(metadata=_LEADER)
        except OSError as error:
            raise StorageUnavailableError(f"etcd: {error}") from None
        try:
            yield call
        finally:
            call.cancel()

    async def each(self, service: str, name: str, request: Any, seconds: float = ATTEMPT_SECONDS) -> list[Any]:
        """Ask every member; the answers of those that gave one."""
        asked = [self._attempt(member, service, name, request, seconds) for member in self._members]
        return [answer for answer in await asyncio.gather(*asked) if not isinstance(answer, Failure)]

    async def close(self) -> None:
        for member in self._members:
            await member.close()


class _Asking:
    """The attempts of one call."""

    def __init__(self, members: Members, service: str, name: str, request: Any, deadline: float) -> None:
        self._members, self._what, self._deadline = members, (service, name, request), deadline
        self._pending: dict[asyncio.Task[Any], Member] = {}
        self._now = asyncio.get_running_loop().time
        self.asked = 0

    async def only(self, timeout: float) -> tuple[Member, Any]:
        member = self._members.pick()
        self.asked += 1
        left = self._deadline - self._now()
        return member, await self._members.ask(member, *self._what, min(timeout, left))

    async def first(self, pause: float) -> tuple[Member, Any]:
        """The next answer, or the next failure when nothing else is under way; another member is asked after each pause."""
        last: tuple[Member, Any] | None = None
        while True:
            left = self._deadline - self._now()
            if len(self._pending) < _AT_ONCE and left > 0:
                member = self._members.pick()
                self.asked += 1
                asking = self._members.ask(member, *self._what, left)
                self._pending[asyncio.create_task(asking, name="etcd-read")] = member
            done, _ = await asyncio.wait(self._pending, timeout=min(pause, max(left, 0.01)), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                last = self._pending.pop(task), task.result()
                if not isinstance(last[1], Failure):
                    return last
            if last is not None and not (self._pending and last[1].elsewhere):
                return last
            if not done:
                for member in set(self._pending.values()):
                    self._members.suspect(member)

    def stop(self) -> None:
        for task in self._pending:
            task.cancel()


class CallError(Exception):
    """A failure that the caller asked to be told of."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


Call = Callable[..., Awaitable[Any]]
