"""systemd-logind's side of a shutdown on a private D-Bus daemon: what the kubelet asks of it, and nothing else.

async with running_logind(tmp_path) as logind:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
    ...; logind.announce(True); assert not logind.locked()
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

_CONFIG = """<busconfig><type>system</type><listen>unix:path={socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/><allow receive_sender="*"/>
<allow send_type="*"/></policy></busconfig>"""
_PATH, _MANAGER = "/org/freedesktop/login1", "org.freedesktop.login1.Manager"


@dataclass
class Logind:
    """``delay``: InhibitDelayMaxSec in force."""

    address: str
    bus: Any
    delay: float
    asked: list[str]
    _held: list[int]

    def announce(self, stopping: bool) -> None:
        self.bus.send(Message.new_signal(_PATH, _MANAGER, "PrepareForShutdown", "b", [stopping]))

    def locked(self) -> bool:
        """Whether somebody holds the other end of a lock that was given out."""
        return any(_open(end) for end in self._held)

    def answer(self, message: Any) -> Any:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        if message.member == "Inhibit":
            self.asked = list(message.body)
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            self._held.append(ours)
            reply = Message(
                message_type=MessageType.METHOD_RETURN,
                reply_serial=message.serial,
                destination=message.sender,
                signature="h",
                body=[0],
                unix_fds=[theirs],
            )
            self.bus.send(reply).add_done_callback(lambda sent: os.close(theirs))  # the lock is the receiver's copy
            return True
        if message.member == "Get" and message.body == [_MANAGER, "InhibitDelayMaxUSec"]:
            return Message.new_method_return(message, "v", [Variant("t", int(self.delay * 1e6))])
        if message.member == "KillUnit":
            return Message.new_method_return(message)
        return None

    def close(self) -> None:
        for end in self._held:
            os.close(end)


def _open(end: int) -> bool:
    """A pipe without data whose other end is closed reads as empty; one that is open would block."""
    try:
        return os.read(end, 1) != b""
    except BlockingIOError:
        return True


@asynccontextmanager
async def running_logind(folder: Path, delay: float = 60.0) -> AsyncIterator[Logind]:
    """Skips, saying why, where there is no D-Bus daemon."""
    async with running_bus(folder) as address:
        bus = await MessageBus(bus_address=address, bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        logind = Logind(address, bus, delay, [], [])
        bus.add_message_handler(logind.answer)
        await bus.request_name("org.freedesktop.login1")
        await bus.request_name("org.freedesktop.systemd1")
        try:
            yield logind
        finally:
            bus.disconnect()
            logind.close()


@asynccontextmanager
async def running_bus(folder: Path) -> AsyncIterator[str]:
    """A D-Bus daemon of its own; its address. Skips, saying why, where there is none."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed (make setup-dev)")
    socket, config = folder / "bus.sock", folder / "bus.conf"
    config.write_text(_CONFIG.format(socket=socket))
    daemon = await asyncio.create_subprocess_exec("dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile")
    try:
        async with asyncio.timeout(10):
            while not socket.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield f"unix:path={socket}"
    finally:
        daemon.kill()
        await daemon.wait()
