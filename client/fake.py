"""A scripted Transport: answers from a list, watches that a test feeds, breaks or ends. For tests of clients.

What it does not imitate: storage (nothing written is ever read back), the order of answers on several connections,
selectors, and time. Controllers are tested on the real API server in process.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from apimachinery.errors import StatusError
from client.kubeconfig import Config
from client.transport import Request, TransportError


@dataclass
class Reply:
    """A whole answer."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield await self.read()

    def close(self) -> None:
        return


def failure(error: StatusError) -> Reply:
    """The answer a server gives for ``error``."""
    return Reply(error.code, error.status, error.headers)


class FakeWatch:
    """An open watch: ``send`` events, then ``end`` it as a server does, or ``drop`` it as a network does."""

    status = 200

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}
        self.closed = False
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, kind: str, obj: Mapping[str, Any]) -> None:
        self.send_bytes(orjson.dumps({"type": kind, "object": obj}) + b"\n")

    def send_bytes(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def send_error(self, error: StatusError) -> None:
        self.send("ERROR", error.status)

    def end(self) -> None:
        self._chunks.put_nowait(None)

    def drop(self) -> None:
        self._chunks.put_nowait(TransportError("connection reset", sent=True))

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    def close(self) -> None:
        self.closed = True


Answer = Reply | FakeWatch | Exception | Callable[[Request], "Reply | FakeWatch"]


class FakeTransport:
    """Answers each ``METHOD /path`` (query apart; ``WATCH`` for watches) from its own script, in order.

    The last answer of a script repeats when it was added with ``always``. A request without an answer fails the test.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._always: dict[str, Answer] = {}

    def on(self, what: str, *answers: Answer) -> None:
        """Add to the script of ``what``, such as ``GET /api/v1/pods`` or ``WATCH /api/v1/pods``."""
        self._scripts[what].extend(answers)

    def always(self, what: str, answer: Answer) -> None:
        """The answer to ``what`` once its script is used up."""
        self._always[what] = answer

    def asked(self, what: str) -> list[Request]:
        """The requests so far for ``what``."""
        return [request for request in self.requests if _what(request) == what]

    async def send(self, request: Request) -> Reply | FakeWatch:
        await asyncio.sleep(0)
        self.requests.append(request)
        what = _what(request)
        script = self._scripts[what]
        answer = script.popleft() if script else self._always.get(what)
        if answer is None:
            raise AssertionError(f"no answer is scripted for {what} ({request.path})")
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    async def close(self) -> None:
        return


FAKE_CONFIG = Config(server="https://fake.invalid:6443")


def _what(request: Request) -> str:
    path, _, query = request.path.partition("?")
    return f"{'WATCH' if 'watch=true' in query else request.method} {path}"
