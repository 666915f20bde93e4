"""systemd-logind over D-Bus: an inhibitor lock delays the machine's stop, a signal announces it.

Interface: org.freedesktop.login1(5). The library is imported only where a shutdown grace period is configured.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

_BUS, _PATH, _MANAGER = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_DROP_IN = Path("/etc/systemd/logind.conf.d/99-kubelet.conf")


class LogindError(Exception):
    """systemd-logind is not there, or does not do what is asked."""


class Machine(Protocol):
    """What the manager needs of the machine."""

    async def max_delay(self) -> float:
        """Seconds that a lock may hold the stop back at most. Raises LogindError."""
        ...

    async def extend_delay(self, seconds: float) -> None:
        """Have it allow more. Raises LogindError."""
        ...

    async def inhibit(self) -> None:
        """Take the lock; nothing if it is held. Raises LogindError."""
        ...

    def release(self) -> None:
        """Let the machine stop."""
        ...

    def announcements(self) -> AsyncIterator[bool]:
        """True: the machine is about to stop. False: it is not, after all."""
        ...


class Logind:
    """The real one: an asynchronous context manager that holds the connection. Entering raises LogindError."""

    def __init__(self, drop_in: Path = _DROP_IN) -> None:
        self._drop_in = drop_in
        self._bus: Any = None
        self._lost: asyncio.Future[None] | None = None
        self._lock: int | None = None
        self._announced: asyncio.Queue[bool] = asyncio.Queue(16)

    async def __aenter__(self) -> "Logind":
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        try:
            self._bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        except (OSError, EOFError, ValueError, ImportError) as error:
            raise LogindError(f"cannot connect to the system's D-Bus: {error}") from None
        rule = f"type='signal',interface='{_MANAGER}',member='PrepareForShutdown',path='{_PATH}'"
        await self._call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "s", [rule])
        self._bus.add_message_handler(self._received)
        # once, and never cancelled: whoever cancels this wait cancels it for the bus itself
        self._lost = asyncio.ensure_future(self._bus.wait_for_disconnect())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
        if self._bus is not None and self._lost is not None:
            self._bus.disconnect()
            await asyncio.wait({self._lost})

    def _received(self, message: Any) -> None:
        if message.member == "PrepareForShutdown" and message.interface == _MANAGER and message.path == _PATH:
            if self._announced.full():
                self._announced.get_nowait()
            self._announced.put_nowait(bool(message.body[0]))

    async def announcements(self) -> AsyncIterator[bool]:
        """Ends with LogindError when the bus goes away."""
        assert self._lost is not None, "entered first"
        while True:
            waiting: asyncio.Future[bool] = asyncio.ensure_future(self._announced.get())
            try:
                both: list[asyncio.Future[Any]] = [waiting, self._lost]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    raise LogindError("the system's D-Bus has closed the connection")
                yield waiting.result()
            finally:
                waiting.cancel()

    async def max_delay(self) -> float:
        body = [_MANAGER, "InhibitDelayMaxUSec"]
        reply = await self._call(_BUS, _PATH, "org.freedesktop.DBus.Properties", "Get", "ss", body)
        return int(reply.body[0].value) / 1e6

    async def extend_delay(self, seconds: float) -> None:
        """By a drop-in file for logind.conf; it then reads its configuration again."""
        text = f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n"
        try:
            self._drop_in.parent.mkdir(parents=True, exist_ok=True)
            self._drop_in.write_text(text)
        except OSError as error:
            raise LogindError(f"cannot write {self._drop_in}: {error.strerror}") from None
        body = ["systemd-logind.service", "all", 1]  # SIGHUP
        path, manager = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
        await self._call("org.freedesktop.systemd1", path, manager, "KillUnit", "ssi", body)

    async def inhibit(self) -> None:
        if self._lock is not None:
            return
        body = ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"]
        reply = await self._call(_BUS, _PATH, _MANAGER, "Inhibit", "ssss", body)
        if not reply.unix_fds:
            raise LogindError("systemd-logind gave no lock")
        self._lock = reply.unix_fds[reply.body[0]]

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _call(self, destination: str, path: str, interface: str, member: str, signature: str, body: list[Any]) -> Any:
        from dbus_fast import Message, MessageType

        message = Message(destination=destination, path=path, interface=interface, member=member, signature=signature, body=body)
        try:
            reply = await asyncio.wait_for(self._bus.call(message), 10)
        except (OSError, EOFError, TimeoutError) as error:
            raise LogindError(f"{member}: {error or type(error).__name__}") from None
        if reply is None or reply.message_type is MessageType.ERROR:
            raise LogindError(f"{member}: {reply.body[0] if reply and reply.body else 'no answer'}")
        return reply
