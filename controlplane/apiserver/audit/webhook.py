"""Sends audit events to a server, in batches; the file of ``--audit-webhook-config-file`` is a kubeconfig that names it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from apimachinery.errors import StatusError
from client.kubeconfig import load
from client.rest import Client

log = logging.getLogger(__name__)
_QUEUE = 10_000
_BATCH, _WAIT_SECONDS = 400, 30.0
_TRIES, _PAUSE_SECONDS = 5, 10.0


class WebhookSink:
    """A full queue drops events and counts them, as a server that stays away does."""

    def __init__(self, kubeconfig: Path, wait: float = _WAIT_SECONDS, pause: float = _PAUSE_SECONDS) -> None:
        self._client = Client(load(kubeconfig), component="kube-apiserver")
        self._wait, self._pause = wait, pause
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_QUEUE)
        self._held: list[dict[str, Any]] = []  # the batch in hand
        self.dropped = 0

    def record(self, event: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["WebhookSink"]:
        """Owns the sending task; what is queued at the end is sent once more."""
        async with self._client, asyncio.TaskGroup() as tasks:
            sender = tasks.create_task(self._send_forever(), name="audit-webhook")
            try:
                yield self
            finally:
                sender.cancel()
                rest = self._held + [self._queue.get_nowait() for _ in range(self._queue.qsize())]
                if rest:
                    await self._send(rest, tries=1)

    async def _send_forever(self) -> None:
        while True:
            self._held = [await self._queue.get()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait):
                    while len(self._held) < _BATCH:
                        self._held.append(await self._queue.get())
            await self._send(self._held, _TRIES)
            self._held = []

    async def _send(self, batch: list[dict[str, Any]], tries: int) -> None:
        listed = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": batch}
        for attempt in range(tries):
            try:
                await self._client.raw("POST", "", body=orjson.dumps(listed), headers={"Content-Type": "application/json"})
                return
            except (StatusError, ConnectionError) as problem:
                log.warning("the audit webhook does not take events: %s", problem)
                if attempt < tries - 1:
                    await asyncio.sleep(self._pause * 1.5**attempt)
        self.dropped += len(batch)
