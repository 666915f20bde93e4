"""The D-Bus side of shutdown, on a real D-Bus daemon."""

import asyncio
from pathlib import Path

import pytest

from node.kubelet.shutdown.logind import Logind, LogindError
from tests.support.logind import running_logind

pytestmark = pytest.mark.timeout(30)


async def test_a_lock_is_held_until_it_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_logind(tmp_path, delay=7.0) as logind:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
        async with Logind() as machine:
            assert await machine.max_delay() == 7.0
            await machine.inhibit()
            await machine.inhibit()
            assert logind.asked == ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"]
            assert logind.locked()
            machine.release()
            while logind.locked():  # noqa: ASYNC110 - the message that brought the lock holds a copy until it is seen as sent
                await asyncio.sleep(0.01)


async def test_announcements_arrive_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_logind(tmp_path) as logind:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
        async with Logind() as machine:
            logind.announce(True)
            logind.announce(False)
            heard = machine.announcements()
            assert [await anext(heard), await anext(heard)] == [True, False]
            for announced in (True, False):
                following = asyncio.ensure_future(anext(heard))
                await asyncio.sleep(0.05)
                assert not following.done()
                logind.announce(announced)
                assert await following is announced
            await heard.aclose()  # type: ignore[attr-defined]


async def test_more_delay_is_asked_by_a_drop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_logind(tmp_path) as logind:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
        drop_in = tmp_path / "logind.conf.d" / "99-kubelet.conf"
        async with Logind(drop_in) as machine:
            await machine.extend_delay(90)
        assert "InhibitDelayMaxSec=90" in drop_in.read_text()


async def test_a_machine_without_a_bus_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/nothing")
    with pytest.raises(LogindError, match="cannot connect to the system's D-Bus"):
        async with Logind():
            pass


async def test_a_lost_bus_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_logind(tmp_path) as logind:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", logind.address)
        machine = Logind()
        await machine.__aenter__()
    with pytest.raises(LogindError, match="closed the connection"):
        async for _ in machine.announcements():
            pass
    await machine.__aexit__()
