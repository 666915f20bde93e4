"""The servers under test and what is done to them: one API server on SQLite, or three on three etcd members.

    async with alone(folder, fault="") as world:
        world.urls, world.token, world.ca
        await world.trouble("kill", choose); await world.calm()

``run`` drives them. Every fault is named, done and undone here; all that is random comes from the caller's ``choose``.
"""

import asyncio
import random
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.support.daemons import Bench, bench
from tests.support.daemons import Daemon as Alone
from tests.support.ha import API_PORT, Part, Plane, control_plane
from tests.support.machines import Machine, machines

READY_SECONDS = 60.0
_DISK_MEGABYTES = 64
_FAKETIME = "faketime/libfaketime.so.1"
_HOUR = 3600
_ON_ETCD = {"kill apiserver": 3.0, "kill etcd": 3.0, "pause apiserver": 1.0, "pause etcd": 1.0, "cut link": 2.0}


class World(Protocol):
    """Servers, and the faults that they are given (by name, with their weight)."""

    @property
    def urls(self) -> list[str]: ...

    @property
    def token(self) -> str: ...

    @property
    def ca(self) -> Path: ...

    @property
    def faults(self) -> Mapping[str, float]: ...

    async def trouble(self, fault: str, choose: random.Random) -> None:
        """Do it, and undo what would stay for ever; returns when the next may come."""
        ...

    async def calm(self) -> None:
        """Everything runs and is ready."""
        ...


def _faketime() -> Path:
    """The library that gives a process a clock of its own. Fails, saying how to get it."""
    found = next(Path("/usr/lib").glob(f"*/{_FAKETIME}"), None)
    assert found is not None, "libfaketime is not installed (make setup-dev)"
    return found


def ready(url: str, ca: Path) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", context=ssl.create_default_context(cafile=str(ca)), timeout=3) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


async def until(check: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(check):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


# --------------------------------------------------------------------------- one server on SQLite


@dataclass
class OnSQLite:
    """``disk`` is a file system of its own."""

    bench: Bench
    disk: Path
    planted: str = ""
    faults: Mapping[str, float] = field(
        default_factory=lambda: {"kill": 5.0, "stop": 1.0, "pause": 1.0, "full disk": 1.0, "clock": 1.0}
    )
    _daemon: Alone | None = None

    @property
    def urls(self) -> list[str]:
        return [f"https://127.0.0.1:{self.bench.port}"]

    @property
    def token(self) -> str:
        return self.bench.token

    @property
    def ca(self) -> Path:
        return self.bench.pki / "ca.crt"

    async def start(self, ahead: int = 0) -> None:
        """``ahead``: how far its clock is before the machine's, in seconds."""
        environment = {"PYB_FAULT": self.planted} if self.planted else {}
        if ahead:
            environment |= {"LD_PRELOAD": str(_faketime()), "FAKETIME": f"{ahead:+d}", "DONT_FAKE_MONOTONIC": "1"}
        module = "tests.robustness.faulty" if self.planted else "cli"
        flags = self.bench.apiserver_flags()
        self._daemon = await asyncio.to_thread(self.bench.start, "apiserver", *flags, environment=environment, module=module)
        await asyncio.to_thread(self.bench.wait, self._daemon, lambda: self.bench.get("/readyz").status == 200, READY_SECONDS)

    async def end(self) -> None:
        """Stop it in order, for good."""
        assert self._daemon is not None
        self._daemon.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self._daemon.process.wait)

    async def trouble(self, fault: str, choose: random.Random) -> None:
        assert self._daemon is not None
        process = self._daemon.process
        match fault:
            case "kill" | "stop":
                process.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
                await asyncio.to_thread(process.wait)
                await self.start()
            case "pause":
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(choose.random())
                process.send_signal(signal.SIGCONT)
            case "full disk":
                await asyncio.to_thread(_fill, self.disk / "ballast")
                await asyncio.sleep(0.5 + choose.random())
                (self.disk / "ballast").unlink()
            case "clock":  # it comes back on a machine whose clock is wrong; the next one finds it right again
                process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(process.wait)
                await self.start(choose.randint(-_HOUR, _HOUR))

    async def calm(self) -> None:
        (self.disk / "ballast").unlink(missing_ok=True)
        await until(lambda: ready(self.urls[0], self.ca))


def _fill(ballast: Path) -> None:
    with ballast.open("wb") as file:
        try:
            while True:
                file.write(b"\0" * (1 << 20))
                file.flush()
        except OSError:
            return  # full, as wanted


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_MEGABYTES}m", "robustness", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@asynccontextmanager
async def alone(folder: Path, planted: str = "") -> AsyncIterator[OnSQLite]:
    """One API server whose database lies on a small file system of its own. ``planted``: a bug of ``faulty``."""
    with _small_disk(folder / "disk") as disk, bench(folder / "c") as made:
        made.storage = [f"--storage-path={disk / 'state.db'}"]
        world = OnSQLite(made, disk, planted)
        if planted:
            world.faults = {"kill": 1.0}  # it is to be found out by what it says, not by not starting
        await world.start()
        yield world


# --------------------------------------------------------------------------- three servers on three etcd members


@dataclass
class OnEtcd:
    """Three machines, each with an API server and an etcd member. At most one of them is in trouble at a time."""

    plane: Plane
    places: list[Machine]
    faults: Mapping[str, float] = field(
        default_factory=lambda: {
            "kill apiserver": 3.0,
            "kill etcd": 3.0,
            "pause apiserver": 1.0,
            "pause etcd": 1.0,
            "cut link": 2.0,
        }
    )

    @property
    def urls(self) -> list[str]:
        return [f"https://{machine.address}:{API_PORT}" for machine in self.places]

    @property
    def token(self) -> str:
        return self.plane.token

    @property
    def ca(self) -> Path:
        return self.plane.ca

    async def trouble(self, fault: str, choose: random.Random) -> None:
        number = choose.randrange(len(self.places))
        if fault == "cut link":
            machine = self.places[number]
            await asyncio.to_thread(machine.cut)
            await asyncio.sleep(0.5 + 3 * choose.random())
            await asyncio.to_thread(machine.mend)
            return
        what, _, part = fault.partition(" ")
        await self._hit(self.plane.part(f"{part}-{number}"), what, choose)

    async def _hit(self, part: Part, what: str, choose: random.Random) -> None:
        if what == "pause":
            part.send(signal.SIGSTOP)
            await asyncio.sleep(0.3 + 2 * choose.random())
            part.send(signal.SIGCONT)
            return
        await asyncio.to_thread(part.kill)
        await asyncio.sleep(choose.random())
        part.start()
        await self.calm()  # a majority of members, or all servers, must not be away at once

    async def calm(self) -> None:
        for part in self.plane.parts.values():
            part.start()  # one that has ended by itself as well
        for url in self.urls:
            await until(lambda url=url: ready(url, self.ca))  # type: ignore[misc]


@asynccontextmanager
async def cluster(folder: Path, planted: str = "") -> AsyncIterator[OnEtcd]:
    """As an operator would have it, without controllers. The calling thread moves into the client's network."""
    assert not planted, "bugs are planted into servers on SQLite"
    with ExitStack() as stack:
        places = stack.enter_context(machines(3))
        plane = stack.enter_context(control_plane(folder / "plane", places, masters=0))
        world = OnEtcd(plane, places)
        await world.calm()
        yield world


Opened = AbstractAsyncContextManager[World]
WORLDS: Mapping[str, Callable[[Path, str], Opened]] = {"sqlite": alone, "etcd": cluster}
