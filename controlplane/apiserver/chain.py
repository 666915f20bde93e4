"""THE ordered list of filters, and the handler that sends every request down it. ``server`` calls it; ``routing`` ends it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from aiohttp.web_request import BaseRequest

from apimachinery import errors
from apimachinery.codecs.json import encode
from controlplane.apiserver.audit.metrics import AuditMetrics
from controlplane.apiserver.audit.policy import Level, Policy
from controlplane.apiserver.audit.sinks import Sink
from controlplane.apiserver.authentication.interface import Authenticator
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.endpoints.watch import WatchAnswer
from controlplane.apiserver.filters.access_metrics import AccessMetrics
from controlplane.apiserver.filters.audit import audit, audit_received
from controlplane.apiserver.filters.authenticate import authenticate
from controlplane.apiserver.filters.authorize import authorize
from controlplane.apiserver.filters.deadline import deadline
from controlplane.apiserver.filters.impersonate import impersonate
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.filters.metrics import RequestMetrics, measure
from controlplane.apiserver.filters.request_info import request_info
from controlplane.apiserver.filters.too_many import TooManyRequests
from controlplane.apiserver.pace import Pace
from controlplane.apiserver.storage.interface import StorageUnavailableError
from controlplane.apiserver.storage.versions import unavailable
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.pieces import Stream
from controlplane.apiserver.wire.reply import Answer, Dates, Reply

log = logging.getLogger(__name__)

# Reads come from memory, and storage bounds the wait for freshness itself; a timer for each would be 6 % of a GET.
_UNTIMED = frozenset({"get", "list"})
_TURNED_AWAY = frozenset({400, 401, 429})  # what costs its sender nothing: no seat, and hardly any work
_WARNINGS, _WARNING = 4096, 256  # characters in all, and in each once that is too little

Route = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the filters need."""

    authenticator: Authenticator
    authorizer: Authorizer
    metrics: RequestMetrics
    seats: Filter  # priority and fairness, or what stands in for it
    audit_sink: Sink | None
    request_timeout: float
    audit_policy: Policy | None = None
    user_headers: Sequence[str] = ()  # by which a front proxy names users
    constrained_impersonation: bool = True
    access: AccessMetrics = field(default_factory=AccessMetrics)
    audits: AuditMetrics = field(default_factory=AuditMetrics)


def filters(parts: Parts) -> list[Filter]:
    """Outermost first. Each sees the call only if all before it let it pass."""
    ordered: list[Filter | None] = [
        request_info,  # everything later asks what the request is about
        measure(parts.metrics),  # counts also what is refused below
        # before authentication: refused requests are events too
        audit(parts.audit_sink, parts.audit_policy, parts.audits) if parts.audit_sink else None,
        deadline(parts.request_timeout),  # what takes a place from here on has an end
        authenticate(parts.authenticator, parts.user_headers, parts.access),
        audit_received(parts.audit_sink, parts.audit_policy, parts.audits) if parts.audit_sink and parts.audit_policy else None,
        # asks the authorizer as the real user, then continues as the other
        impersonate(parts.authorizer, constrained=parts.constrained_impersonation, metrics=parts.access),
        parts.seats,  # knows whom the request speaks for, and bounds how much of the rest is done at once
        authorize(parts.authorizer, metrics=parts.access),
    ]
    return [step for step in ordered if step is not None]


def handler(parts: Parts, route: Route) -> Callable[[BaseRequest], Awaitable[Answer]]:
    """What ``server`` calls for each request. Every outcome is an answer; only a vanished client ends it early."""
    steps = filters(parts)
    dates = Dates()
    pace = Pace()

    async def handle(http: BaseRequest) -> Answer:
        call = Call(http)
        code = 499  # the client went away: nobody sees this but metrics and the audit log
        answer: Answer | None = None
        try:
            answer = await _answer(call, steps, route, parts.request_timeout)
            if answer.status in _TURNED_AWAY and (seconds := pace.delay(time.monotonic())) > 0:
                await asyncio.sleep(seconds)
            code = answer.status
            if call.record is not None:
                await _keep(call, answer)
            _decorate(call, answer, dates)
            if isinstance(answer, Reply) and answer.is_long:
                left = call.seconds - (time.perf_counter() - call.started)
                return Held(answer, left, lambda: _finish(call, code))
            return answer
        finally:
            if isinstance(answer, WatchAnswer):
                answer.on_end = lambda: _finish(call, code)
            elif not isinstance(answer, Reply) or not answer.is_long:
                _finish(call, code)

    return handle


class Held:
    """A long answer: its request is over, and its seat free, when the client has taken it or gone. He has ``seconds`` for it."""

    def __init__(self, answer: Reply, seconds: float, over: Callable[[], None]) -> None:
        self._answer, self._seconds, self._over = answer, seconds, over

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def keep_alive(self) -> bool | None:
        return self._answer.keep_alive

    async def prepare(self, request: BaseRequest) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._answer.prepare(request)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client took too long to read its answer") from None
        finally:
            self._over()

    async def write_eof(self) -> None:
        await self._answer.write_eof()


def _finish(call: Call, code: int) -> None:
    finishers, call.finishers = call.finishers, []  # they know the call: it is not to wait for the garbage collector
    call.on_caught_up = call.on_response = None
    for finisher in reversed(finishers):
        finisher(code)


async def _keep(call: Call, answer: Answer) -> None:
    """For the audit log, under a policy."""
    if isinstance(answer, Reply) and call.record is not None and call.record.verdict.level >= Level.REQUEST_RESPONSE:
        if isinstance(answer.body, Stream):
            answer.body = await answer.body.whole()
        call.record.response, call.record.response_type = bytes(answer.body), answer.content_type
    if call.on_response is not None:
        call.on_response(answer.status)


async def _answer(call: Call, steps: Sequence[Filter], route: Route, seconds: float) -> Answer:
    try:
        for step in steps:
            pending = step(call)
            if pending is not None:
                await pending
        if is_long_running(call) or (call.info.verb in _UNTIMED and call.seconds >= seconds):
            return await route(call)
        async with asyncio.timeout(call.seconds - (time.perf_counter() - call.started)):
            return await route(call)
    except TooManyRequests as refusal:
        return refusal.reply()
    except errors.StatusError as problem:
        return failure(problem)
    except TimeoutError:
        return failure(errors.timeout("request did not complete within the allotted timeout"))
    except StorageUnavailableError as problem:
        return failure(unavailable(problem))
    except UnicodeError:
        return failure(errors.bad_request("the request is not valid UTF-8"))
    except ConnectionError:
        raise
    except Exception as problem:
        log.exception("%s %s failed", call.method, call.path)
        return failure(errors.internal(f"{type(problem).__name__}; the server's log has the audit id {call.audit_id}"))


def failure(problem: errors.StatusError) -> Reply:
    """A Status as an answer."""
    return Reply(problem.code, encode(problem.status), headers=problem.headers.items())


def _decorate(call: Call, answer: Answer, dates: Dates) -> None:
    if not isinstance(answer, Reply | WatchAnswer):
        return
    audit_id = call.audit_id.encode("ascii", "ignore")
    kept = answer.cache_control if isinstance(answer, Reply) else b"no-cache, private"
    answer.trailer = b"Audit-Id: %b\r\nCache-Control: %b\r\n%b%b" % (audit_id, kept, call.flow_headers, dates.line())
    if call.warnings and isinstance(answer, Reply):
        answer.headers += [("Warning", f"299 - {_quoted(text)}") for text in _bounded(call.warnings)]


def _bounded(warnings: Iterable[str]) -> Iterator[str]:
    """Each once; when together they are too long each is cut and the last ones are left out, as upstream does."""
    once = dict.fromkeys(warnings)
    if sum(map(len, once)) <= _WARNINGS:
        yield from once
        return
    written = 0
    for text in once:
        if written >= _WARNINGS:
            return
        yield text[:_WARNING]
        written += len(text[:_WARNING])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(character if character.isprintable() else " " for character in escaped)
    return f'"{printable}"'
