"""Unused images make room: past the high threshold down to the low one, and past their greatest age.

``kubelet.py`` keeps :meth:`ImageCollector.run` going; the eviction manager calls :meth:`delete_unused` when the disk is full.
Who goes first: least recently used, then first seen. Pinned images, images of containers that exist (dead ones too) and the
image of pod sandboxes stay. Rules and texts: upstream's "Garbage collection of unused containers and images".
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from component import logs
from component.clock import Clock
from component.metrics import Registry
from cri.api import runtime_v1_pb2 as pb
from cri.errors import RuntimeServiceError
from cri.interface import ImageService, RuntimeService
from node.kubelet.eviction.signals import filesystem
from node.kubelet.recorder import WARNING, Sink, node_event

PERIOD = 300.0
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """Percentages of the image file system, and seconds. ``max_age`` 0: images may grow old."""

    high: int = 85
    low: int = 80
    min_age: float = 120.0
    max_age: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """One image: when it was first seen, and last used by a container (-inf: never since this
    kubelet started)."""

    size: int
    pinned: bool
    detected: float
    used: float


class SpaceError(Exception):
    """Less could be freed than was needed."""


def observe(
    known: Mapping[str, Record], images: Iterable[pb.Image], in_use: frozenset[str], now: float, first: bool
) -> dict[str, Record]:
    """The records after one look; ``in_use`` holds ids. At the ``first`` look nothing tells how old an image is: it counts
    as seen long ago. Pure."""
    found = {}
    for image in images:
        before = known.get(image.id)
        used = now if image.id in in_use else before.used if before else -math.inf
        detected = before.detected if before else (-math.inf if first else now)
        found[image.id] = Record(image.size, image.pinned, detected, used)
    return found


def in_order(records: Mapping[str, Record], now: float) -> list[str]:
    """Ids of the images that may go, the first to go first. Pure."""
    idle = {image: one for image, one in records.items() if not one.pinned and one.used < now}
    return sorted(idle, key=lambda image: (idle[image].used, idle[image].detected))


def to_free(records: Mapping[str, Record], wanted: int, now: float, min_age: float) -> list[str]:
    """Which images give ``wanted`` bytes, in the order to remove them; all that may go if that is less. Pure."""
    chosen: list[str] = []
    freed = 0
    for image in in_order(records, now):
        if freed >= wanted:
            break
        if now - records[image].detected >= min_age:
            chosen.append(image)
            freed += records[image].size
    return chosen


def too_old(records: Mapping[str, Record], now: float, max_age: float, since: float) -> list[str]:
    """Images that nothing has used for ``max_age`` seconds; what was before this kubelet (``since``) is not held against
    them. Pure."""
    if max_age <= 0:
        return []
    return [image for image in in_order(records, now) if now - max(records[image].used, records[image].detected, since) > max_age]


class ImageCollector:
    """See the module. One per kubelet."""

    def __init__(
        self,
        images: ImageService,
        runtime: RuntimeService,
        clock: Clock,
        policy: Policy,
        events: Sink,
        node_name: str,
        registry: Registry,
        kept: Callable[[], Awaitable[str]],
    ) -> None:
        """``kept`` names the sandbox image, which no container shows; older runtimes do not pin it."""
        self._images = images
        self._runtime = runtime
        self._clock = clock
        self._policy = policy
        self._events = events
        self._node_name = node_name
        self._kept = kept
        self._records: dict[str, Record] = {}
        self._began = clock.monotonic()
        self._looked = False
        self._lock = asyncio.Lock()
        self._removed = registry.counter("kubelet_image_garbage_collected_total", "Images removed, by cause.", ("reason",))
        self.mountpoint: Path | None = None

    async def run(self) -> None:
        """Every five minutes; a look in between keeps the times of use."""
        while True:
            try:
                await self.collect()
            except SpaceError as error:
                _log.warning("Image garbage collection failed", err=error)
                self._note("ImageGCFailed", str(error))
            except RuntimeServiceError as error:
                _log.warning("Cannot look at images", err=error)
            await self._clock.sleep(PERIOD)

    async def look(self) -> float:
        """Learn where images live and which are used; the moment for which that holds. Raises RuntimeServiceError."""
        now = self._clock.monotonic()
        places = await self._images.image_fs_info()
        self.mountpoint = Path(places[0].fs_id.mountpoint) if places else None
        listed = await self._images.list_images()
        used = await self._ids_in_use(listed)
        self._records = observe(self._records, listed, used, now, first=not self._looked)
        self._looked = True
        return now

    async def _ids_in_use(self, listed: Sequence[pb.Image]) -> frozenset[str]:
        names = {name: image.id for image in listed for name in (image.id, *image.repo_tags, *image.repo_digests)}
        wanted = [await self._kept()]
        for container in await self._runtime.list_containers():
            wanted += [container.image_ref, container.image.image]
        return frozenset(names[name] for name in wanted if name in names)

    async def collect(self) -> None:
        """Remove by age, then by need. Raises SpaceError or RuntimeServiceError."""
        async with self._lock:
            now = await self.look()
            await self._remove(too_old(self._records, now, self._policy.max_age, self._began), "age")
            if self.mountpoint is None:
                return
            try:
                space, _ = await asyncio.to_thread(filesystem, self.mountpoint)
            except OSError as error:
                raise SpaceError(f"cannot read the image file system at {self.mountpoint}: {error.strerror}") from None
            used = 100 - space.available * 100 // space.capacity if space.capacity else 0
            if used < self._policy.high:
                return
            wanted = space.capacity * (100 - self._policy.low) // 100 - space.available
            _log.info("Disk usage on image filesystem is over the high threshold", usage=used, high=self._policy.high)
            freed = await self._remove(to_free(self._records, wanted, now, self._policy.min_age), "space")
            if freed < wanted:
                text = (
                    "Failed to garbage collect required amount of images. "
                    f"Attempted to free {wanted} bytes, but only found {freed} bytes eligible to free."
                )
                self._note("FreeDiskSpaceFailed", text)
                raise SpaceError(text)

    async def delete_unused(self) -> None:
        """Remove every image that may go, however young. Raises RuntimeServiceError."""
        async with self._lock:
            now = await self.look()
            await self._remove(in_order(self._records, now), "space")

    async def _remove(self, ids: Sequence[str], reason: str) -> int:
        """Bytes freed; an image that will not go is left for the next time."""
        freed = 0
        for image in ids:
            try:
                await self._images.remove_image(image)
            except RuntimeServiceError as error:
                _log.warning("Cannot remove an image", image=image, err=error)
                continue
            self._removed.labels(reason).inc()
            freed += self._records.pop(image).size
        return freed

    def _note(self, reason: str, note: str) -> None:
        node_event(self._events, self._node_name, WARNING, reason, note)
