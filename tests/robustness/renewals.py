"""Kubelets that do nothing but renew their leases, in a process of their own so that nobody else's work delays their clocks.

Started by ``misbehave``: ``python -m tests.robustness.renewals``, its orders as JSON on standard input; one line per renewal on
standard output: when it began (seconds of the machine's monotonic clock), how long it took, how much processor time the server
used meanwhile, and the status (0: no answer). It ends when another line comes, and then says what was acknowledged last for
each node.
"""

import asyncio
import json
import ssl
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import uvloop

NAMESPACE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ANSWER_SECONDS = 10.0  # a kubelet waits no longer


@dataclass
class Orders:
    host: str
    port: int
    ca: str
    tokens: dict[str, str]  # by node
    period: float
    server: int  # its process

    @property
    def clock(self) -> int:
        """The kernel's number for the processor time of that process, as clock_getcpuclockid(3) makes it."""
        return (~self.server << 3) | 2


class Node:
    """One kubelet with one connection, which it opens again when it breaks."""

    def __init__(self, orders: Orders, name: str, tls: ssl.SSLContext) -> None:
        self._orders, self._name, self._tls = orders, name, tls
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lease: dict[str, Any] | None = None
        self.acknowledged = ""

    async def run(self, first: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + first
        while True:
            await asyncio.sleep(max(due - loop.time(), 0))
            began, used = time.monotonic(), time.clock_gettime(self._orders.clock)
            status = 0
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    status = await self._renew()
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self._drop()
            used = time.clock_gettime(self._orders.clock) - used
            sys.stdout.write(f"{began} {time.monotonic() - began} {used} {status}\n")
            due = max(due + self._orders.period, loop.time())

    async def _renew(self) -> int:
        if self._lease is None:
            status, answer = await self._send("GET", f"{NAMESPACE}/{self._name}")
            if status == 404:
                spec = {"holderIdentity": self._name, "leaseDurationSeconds": 40}
                meta = {"name": self._name, "namespace": "kube-node-lease"}
                made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
                status, answer = await self._send("POST", NAMESPACE, made)
            if status not in (200, 201):
                return status
            self._lease = answer
        moment = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        wanted = {**self._lease, "spec": {**self._lease["spec"], "renewTime": moment}}
        status, answer = await self._send("PUT", f"{NAMESPACE}/{self._name}", wanted)
        self._lease = answer if status == 200 else None
        if status == 200:
            self.acknowledged = moment
        return status

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if self._streams is None:
            orders = self._orders
            self._streams = await asyncio.open_connection(orders.host, orders.port, ssl=self._tls)
        reader, writer = self._streams
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._orders.tokens[self._name]}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in answer if line.startswith("content-length:"))
        text = await reader.readexactly(length)
        status = int(answer[0].split()[1])
        return status, json.loads(text) if status < 300 else None

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def run(orders: Orders) -> dict[str, str]:
    tls = ssl.create_default_context(cafile=orders.ca)
    nodes = {name: Node(orders, name, tls) for name in orders.tokens}
    renewing = [
        asyncio.ensure_future(node.run(orders.period * number / len(nodes))) for number, node in enumerate(nodes.values())
    ]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for task in renewing:
        task.cancel()
    for outcome in await asyncio.gather(*renewing, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
    return {name: node.acknowledged for name, node in nodes.items()}


def main() -> None:
    orders = Orders(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        acknowledged = runner.run(run(orders))
    sys.stdout.write(json.dumps(acknowledged) + "\n")


if __name__ == "__main__":
    main()
