"""A client that misbehaves, in a process of its own: ``python -m tests.robustness.attack``, its orders as JSON on standard input.

Started by ``misbehave``. It says ``ready`` when its connections are open, ends when it is told to (a line on standard input) or
killed, and prints what it got: answers by status, bytes, and how many connections the server closed.
"""

import asyncio
import json
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvloop

OPENING = 50  # connections that are being opened at once


@dataclass
class Orders:
    kind: str  # lists, slow-lists, watches, slow-watches, slow-heads, slow-bodies, floods
    count: int  # connections
    host: str
    port: int
    ca: str
    token: str
    path: str


class Attacker(asyncio.Protocol):
    """One connection. ``again`` is what it does when an answer has come."""

    def __init__(self, seen: Counter[str], orders: Orders) -> None:
        self.seen, self.orders = seen, orders
        self.transport: Any = None
        self.gone = asyncio.get_running_loop().create_future()
        self._head = b""
        self._left = 0  # of the body of an answer; negative while chunks come
        self.on_answer: Callable[[], None] | None = None
        self.drip = 0  # bytes a second that are read, 0 for all

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.seen["closed"] += 1
        if not self.gone.done():
            self.gone.set_result(None)

    def send(self, headers: str = "", method: str = "GET") -> None:
        orders = self.orders
        text = f"{method} {orders.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {orders.token}\r\n{headers}\r\n"
        self.transport.write(text.encode())

    def data_received(self, data: bytes) -> None:
        self.seen["bytes"] += len(data)
        if self.drip:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(len(data) / self.drip, self.transport.resume_reading)
        if self._left < 0:
            return
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
                if not self._left:
                    self._answered()
                continue
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data, self._head = self._head[:end].lower(), self._head[end + 4 :], b""
            self.seen[head.split(b" ", 2)[1].decode()] += 1
            if b"transfer-encoding: chunked" in head:
                self._left = -1
                return
            if b"content-length: " not in head:
                return  # the last words before the connection is closed
            self._left = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            if not self._left:
                self._answered()

    def _answered(self) -> None:
        if self.on_answer is not None:
            self.on_answer()


async def _act(made: Attacker) -> None:
    """For as long as the connection lasts."""
    kind = made.orders.kind
    if kind in ("lists", "slow-lists"):
        made.on_answer = made.send
        made.drip = 20_000 if kind == "slow-lists" else 0
        made.send()
    elif kind in ("watches", "slow-watches"):
        made.drip = 1_000 if kind == "slow-watches" else 0
        made.send()
    elif kind == "slow-heads":
        made.transport.write(b"GET / HTTP/1.1\r\n")
        while not made.gone.done():
            made.transport.write(b"X-A: b\r\n")
            await asyncio.wait([made.gone], timeout=5)
    elif kind == "slow-bodies":
        made.send("Content-Type: application/json\r\nContent-Length: 100000\r\n", "POST")
        while not made.gone.done():
            made.transport.write(b" ")
            await asyncio.wait([made.gone], timeout=5)
    elif kind == "floods":
        made.transport.write(b"GET / HTTP/1.1\r\n")
        number = 0
        while not made.gone.done() and not made.transport.is_closing():
            number += 1
            made.transport.write(f"X-{number}: ".encode() + b"a" * 50_000 + b"\r\n")
            await asyncio.sleep(0)
    await made.gone


async def run(orders: Orders) -> Counter[str]:
    loop = asyncio.get_running_loop()
    seen: Counter[str] = Counter()
    tls = ssl.create_default_context(cafile=orders.ca)
    opening = asyncio.Semaphore(OPENING)
    stop = asyncio.Event()
    lasting = orders.kind not in ("watches", "slow-watches")

    async def one() -> None:
        while not stop.is_set():
            try:
                async with opening:
                    _, made = await loop.create_connection(
                        lambda: Attacker(seen, orders), orders.host, orders.port, ssl=tls, ssl_handshake_timeout=120
                    )
            except OSError as error:
                seen[type(error).__name__] += 1
                await asyncio.sleep(1)
                continue
            seen["opened"] += 1
            if seen["opened"] == orders.count:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
            try:
                await _act(made)
            finally:
                made.transport.abort()
            if not lasting:
                await asyncio.sleep(1)

    tasks = [asyncio.ensure_future(one()) for _ in range(orders.count)]
    await loop.run_in_executor(None, sys.stdin.readline)
    result = Counter(seen)
    stop.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return result


def main() -> None:
    orders = Orders(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(run(orders))
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
