"""Sends audit events to a server, in batches; the file of ``--audit-webhook-config-file`` is a kubeconfig that names it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from apimachinery.codecs.json import encode
from apimachinery.errors import StatusError
from client.kubeconfig import load
from client.rest import Client
from controlplane.apiserver.audit.truncate import Bounds, batches, fitted

log = logging.getLogger(__name__)
_QUEUE = 10_000
_BATCH, _WAIT_SECONDS = 400, 30.0
_TRIES, _PAUSE_SECONDS = 5, 10.0


class WebhookSink:
    """A full queue drops events and counts them, as a server that stays away does."""

    def __init__(
        self,
        kubeconfig: Path,
        wait: float = _WAIT_SECONDS,
        pause: float = _PAUSE_SECONDS,
        *,
        size: int = _BATCH,
        buffer: int = _QUEUE,
        bounds: Bounds | None = None,
    ) -> None:
        self._client = Client(load(kubeconfig), component="kube-apiserver")
        self._wait, self._pause, self._size, self._bounds = wait, pause, size, bounds
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(buffer)
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
                    while len(self._held) < self._size:
                        self._held.append(await self._queue.get())
            await self._send(self._held, _TRIES)
            self._held = []

    async def _send(self, batch: list[dict[str, Any]], tries: int) -> None:
        bounds = self._bounds
        if bounds is None:
            await self._post([encode(event) for event in batch], tries)
            return
        events = [event for each in batch if (event := fitted(each, bounds.event)) is not None]
        self.dropped += len(batch) - len(events)
        for part in batches(events, bounds.batch):
            await self._post(part, tries)

    async def _post(self, events: list[bytes], tries: int) -> None:
        body = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[%b]}' % b",".join(events)
        for attempt in range(tries):
            try:
                await self._client.raw("POST", "", body=body, headers={"Content-Type": "application/json"})
                return
            except (StatusError, ConnectionError) as problem:
                log.warning("the audit webhook does not take events: %s", problem)
                if attempt < tries - 1:
                    await asyncio.sleep(self._pause * 1.5**attempt)
        self.dropped += len(events)
