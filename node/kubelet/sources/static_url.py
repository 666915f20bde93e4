"""Static pods from a URL (``staticPodURL``): a Pod or a PodList, asked for again and again. Run by ``kubelet.py``.

What cannot be had or understood changes nothing: the pods that were there go on. Only an answer that lists fewer ends some.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import yaml

from apimachinery.meta import uid_of
from apimachinery.times import format_time
from component import logs
from component.clock import Clock
from node.kubelet.sources.static_pods import Pod, StaticPods, static_pod

_TIMEOUT = 10.0
_LARGEST = 10 << 20
_LOUD = 3  # so many failures in a row are warnings
_log = logs.get(__name__)

Headers = Mapping[str, Sequence[str]]


class SourceError(Exception):
    """No pods can be had from the URL; the text says why."""


class StaticUrl:
    """Asks every ``period`` seconds."""

    def __init__(self, url: str, headers: Headers, node_name: str, clock: Clock, pods: StaticPods, period: float) -> None:
        self._url = url
        self._headers = [(name, value) for name, values in headers.items() for value in values]
        self._node_name = node_name
        self._clock = clock
        self._pods = pods
        self._period = period
        self._failures = 0
        self._data = b""
        self._known = False
        self.looked = asyncio.Event()
        """Set once the URL has said which pods there are: before that, none that runs may be taken for unwanted."""

    async def run(self) -> None:
        """Until cancelled. The waiting for pods that end is finer than the period."""
        while True:
            try:
                await self._ask()
            except (SourceError, aiohttp.ClientError, OSError, ValueError) as error:
                self._failures += 1
                if self._failures <= _LOUD:
                    _log.warning("Failed to read pods from URL", url=self._url, err=error)
                else:
                    _log.v(4, "Failed to read pods from URL", url=self._url, err=error)
            else:
                if self._failures:
                    _log.info("Successfully read pods from URL", url=self._url)
                self._failures = 0
            await self._settle()

    async def _settle(self) -> None:
        """Wait for the next time to ask; pods that wait for another's end are started meanwhile."""
        until = self._clock.monotonic() + self._period
        while (left := until - self._clock.monotonic()) > 0:
            done = self._pods.start_waiting()
            if done and self._known:
                self.looked.set()
            await self._clock.sleep(left if done else min(left, 1.0))

    async def _ask(self) -> None:
        data = await self._fetch()
        if not data:
            self._known = True
            self._pods.take({})
            self._data = data
            raise SourceError(f"zero-length data received from {self._url}")
        if data == self._data:
            return
        self._pods.take(pods_of(data, self._url, self._node_name, format_time(self._clock.now())))
        self._data, self._known = data, True

    async def _fetch(self) -> bytes:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session,
            session.get(self._url, headers=self._headers) as answer,
        ):
            if answer.status != 200:
                raise SourceError(f"{self._url}: {answer.status} {answer.reason}")
            data = bytearray()
            async for chunk in answer.content.iter_chunked(1 << 16):
                data += chunk
                if len(data) > _LARGEST:
                    raise SourceError(f"{self._url}: more than {_LARGEST} bytes")
            return bytes(data)


def pods_of(data: bytes, url: str, node_name: str, seen: str) -> dict[str, Pod]:
    """The pods of an answer, JSON or YAML, by uid. Raises ValueError: one that cannot be used spoils the whole answer. Pure."""
    try:
        document: Any = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"not YAML: {error}") from None
    listed = [document]
    if isinstance(document, dict) and document.get("kind") == "PodList":
        listed = [{"apiVersion": "v1", "kind": "Pod", **item} for item in document.get("items") or () if isinstance(item, dict)]
    made = [static_pod(each, json.dumps(each, sort_keys=True, default=str), url, node_name, seen, "http") for each in listed]
    return {uid_of(pod): pod for pod in made}
