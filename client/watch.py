"""One watch connection: bytes in, events out. Opened by ``client.rest``, read by ``client.reflector``.

Lines are cut with ``bytes.split`` per received chunk, never line by line, since a busy watch brings many events a chunk.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import orjson

from apimachinery.errors import StatusError
from client.failures import from_answer
from client.transport import Response, TransportError

Event = tuple[str, dict[str, Any]]
"""``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object."""
Batch = list[Event]
_MAX_LINE = 64 << 20


class Watch:
    """An asynchronous iterator of events, and a context that closes the connection.

    The connection opens with ``async with``, or with the first event asked for. Iteration ends when the server ends the
    watch; raises StatusError for an ERROR event or a refused request, TransportError when the connection breaks.
    Iterating without ``async with`` closes it too, unless the loop is left early.
    """

    def __init__(self, connect: Callable[[], Awaitable[Response]]) -> None:
        self._connect = connect
        self._response: Response | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def open(self) -> None:
        """Connect now, so that a refusal is raised here."""
        if self._response is None and not self._closed:
            self._response = await self._connect()

    def close(self) -> None:
        self._closed = True
        if self._response is not None:
            self._response.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Events in lists, as many as arrived together; cheaper than one by one."""
        await self.open()
        if self._response is None:
            return
        rest = b""
        try:
            async for chunk in self._response.chunks():
                lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                rest = lines.pop()
                if len(rest) > _MAX_LINE:
                    raise TransportError("a watch event exceeds 64 MiB", sent=True)
                events, failure = _decode(lines)
                if events:
                    yield events
                if failure is not None:
                    raise failure
            if rest.strip():
                yield [_event(rest)]
        finally:
            self.close()


def _decode(lines: list[bytes]) -> tuple[list[Event], Exception | None]:
    """The events up to the first that is an error, and that error: what came before it is still true."""
    events: list[Event] = []
    for line in lines:
        if line:
            try:
                events.append(_event(line))
            except (StatusError, TransportError) as error:
                return events, error
    return events, None


def _event(line: bytes) -> Event:
    try:
        parsed = orjson.loads(line)
        kind, obj = parsed["type"], parsed["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise TransportError(f"malformed watch event: {error}", sent=True) from None
    if kind == "ERROR":
        raise from_answer("WATCH", "", int(obj.get("code") or 500), {}, orjson.dumps(obj))
    return kind, obj
