"""Asks kubelets for their usage when somebody asks for it here. Nobody asks: nobody pays.

``stores`` reads :meth:`Source.usage`. Two answers of each kubelet are kept. One whose answer is fresh enough is not asked again;
one that has no answer to compare with is asked twice, a second apart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from component import logs
from component.clock import Clock, timeout
from controlplane.apiserver.resource_metrics import samples
from controlplane.apiserver.resource_metrics.samples import Answer, Place, Rate

RESOLUTION = 15.0
_COMPARABLE = 60.0  # seconds after which an earlier answer says little about now
_APART = 1.0
_SECONDS = 5.0
_AT_ONCE = 50
_LARGE = 16384
_log = logs.get(__name__)

Fetch = Callable[[str], Awaitable[str]]
"""The text of one node's ``/metrics/resource``; raises OSError or ValueError."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Rates of all nodes that answer and of their containers."""

    nodes: Mapping[str, Rate] = field(default_factory=dict)
    containers: Mapping[Place, Rate] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    asked: float = float("-inf")
    before: Answer | None = None
    now: Answer | None = None


class Source:
    """One per server."""

    def __init__(self, nodes: Callable[[], Awaitable[Sequence[str]]], fetch: Fetch, clock: Clock) -> None:
        """``nodes`` names all nodes."""
        self._nodes = nodes
        self._fetch = fetch
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._lock = asyncio.Lock()
        self._usage = Usage()

    async def usage(self) -> Usage:
        """Not older than fifteen seconds. Many who ask at once share one round."""
        async with self._lock:
            names = await self._nodes()
            self._known = {name: self._known.get(name, _Known()) for name in names}
            stale = [name for name in names if self._clock.monotonic() - self._known[name].asked >= RESOLUTION]
            if stale:
                async with asyncio.TaskGroup() as group:
                    for name in stale:
                        group.create_task(self._ask(name))
                self._usage = self._rates()
            return self._usage

    async def _ask(self, name: str) -> None:
        known, asked = self._known[name], self._clock.monotonic()
        try:
            async with self._slots, timeout(self._clock, _SECONDS):
                if known.now is None or asked - known.asked > _COMPARABLE:
                    known.now = await self._answer(name)
                    await self._clock.sleep(_APART)
                known.before, known.now = known.now, await self._answer(name)
        except (OSError, ValueError, TimeoutError) as error:
            _log.warning("Cannot read a node's usage", node=name, err=error)
            known.before = known.now = None  # what it said before is no answer for now
        known.asked = self._clock.monotonic()

    async def _answer(self, name: str) -> Answer:
        text, received = await self._fetch(name), self._clock.now().timestamp()
        if len(text) > _LARGE:  # some milliseconds that other requests need not wait
            return await asyncio.to_thread(samples.parse, text, received)
        return samples.parse(text, received)

    def _rates(self) -> Usage:
        nodes: dict[str, Rate] = {}
        containers: dict[Place, Rate] = {}
        for name, known in self._known.items():
            if known.before is None or known.now is None:
                continue
            own = samples.rate(known.before.node, known.now.node)
            if own is not None:
                nodes[name] = own
            containers.update(samples.containers(known.before, known.now))
        return Usage(nodes, containers)
