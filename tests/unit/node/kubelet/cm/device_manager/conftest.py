"""A device manager of its own on real sockets and virtual time, without a kubelet around it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from component.clock import FakeClock
from component.metrics import Registry
from node.kubelet.cm.device_manager.manager import DeviceManager, Surroundings
from node.kubelet.cm.device_manager.metrics import DeviceMetrics
from node.kubelet.cm.interface import AdmissionError, Affinity, TopologyHint
from tests.support.device_plugin import NullPlugin


@dataclass
class Kubelet:
    """What is around the manager, and the manager. ``there`` are uids whose sandbox runs."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Registry = field(default_factory=lambda: Registry(process=False))
    hints: dict[tuple[str, str], TopologyHint] = field(default_factory=dict)
    topology: Affinity | None = None
    there: set[str] = field(default_factory=set)
    changes: int = 0
    nudged: list[str] = field(default_factory=list)
    manager: DeviceManager = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        around = Surroundings(self, self.there.__contains__, self._changed, self.nudged.append)
        self.manager = DeviceManager(self.folder, self.clock, DeviceMetrics(self.metrics), around, {0, 1})
        self.manager.restore()

    def affinity(self, uid: str, container: str) -> TopologyHint:
        if self.topology is not None:
            return self.topology.affinity(uid, container)
        return self.hints.get((uid, container), TopologyHint())

    def _changed(self) -> None:
        self.changes += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DeviceManager]:
        task = asyncio.create_task(self.manager.run())
        try:
            await until(lambda: self.manager.registration.listening)
            yield self.manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def admit(self, pod: dict[str, Any]) -> str:
        """The refusal's message, or ""; as topology manager and pod worker do it."""
        spec = pod["spec"]
        try:
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                await self.manager.allocate(pod, container)
            await self.manager.prepare(pod)
        except AdmissionError as error:
            self.manager.forget(pod["metadata"]["uid"])
            return str(error) if error.reason == "UnexpectedAdmissionError" else error.reason
        return ""

    def held(self, uid: str, container: str = "c") -> dict[str, str]:
        return {name: ",".join(sorted(given.ids)) for name, given in self.manager.given(uid, container).items()}


async def until(condition: Callable[[], Any]) -> None:
    """Sockets are real: what they bring is waited for."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def in_time(clock: FakeClock, condition: Callable[[], Any]) -> None:
    """Threads and sockets are real, so virtual time passes second by second until something is so."""
    async with asyncio.timeout(10):
        while not condition():
            await clock.advance(1)
            await asyncio.sleep(0.005)


def asking(uid: str, count: int = 1, resource: str = "example.com/null", **more: Any) -> dict[str, Any]:
    """A pod with one container ``c``."""
    container = {"name": "c", "resources": {"limits": {resource: str(count)}}}
    return {"metadata": {"uid": uid, "name": uid}, "spec": {"containers": [container], **more}}


def container(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"example.com/null": str(count)}}, **more}


@pytest.fixture
def place() -> Iterator[Path]:
    """Paths of sockets have to be short."""
    path = Path(tempfile.mkdtemp(prefix="pyb-dp-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def kubelet(place: Path) -> Kubelet:
    return Kubelet(place / "device-plugins")


@pytest.fixture
def plugin(place: Path) -> NullPlugin:
    return NullPlugin(place / "device-plugins", place / "devices")
