"""The conversation with systemd, on a bus of its own with a manager that answers as told: order, refusals, lost connections.

That the real one does what is asked is tried in the virtual machine (``tests/e2e/test_cgroup_v2.py``).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import BusType, Message
from dbus_fast.aio import MessageBus

from node.kubelet.cgroups.systemd import Systemd, SystemdError
from tests.support.logind import running_bus

NAME = "kubepods-pod1.slice"
LIMITS = [("MemoryMax", "t", 1 << 20)]
_PATH, _MANAGER = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"


@dataclass
class Manager:
    """``result``: how jobs end. ``early``: whether their end is told before the answer to the call."""

    bus: Any = None
    result: str = "done"
    early: bool = False
    refuse: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, message: Any) -> Any:
        if message.interface != _MANAGER:
            return None
        name = str(message.body[0]) if message.body else ""
        if message.member != "Subscribe":
            self.asked.append((message.member, name))
        if error := self.refuse.get(message.member):
            return Message.new_error(message, f"org.freedesktop.systemd1.{error}", error)
        if message.member not in ("StartTransientUnit", "StopUnit"):
            return Message.new_method_return(message)
        job = f"{_PATH}/job/{len(self.asked)}"
        ended = Message.new_signal(_PATH, _MANAGER, "JobRemoved", "uoss", [len(self.asked), job, name, self.result])
        if self.early:
            self.bus.send(ended)
        else:
            asyncio.get_running_loop().call_later(0.01, self.bus.send, ended)
        return Message.new_method_return(message, "o", [job])


@asynccontextmanager
async def _machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Manager]:
    async with running_bus(folder) as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        manager = Manager(await MessageBus(bus_address=address, bus_type=BusType.SYSTEM).connect())
        manager.bus.add_message_handler(manager.answer)
        await manager.bus.request_name("org.freedesktop.systemd1")
        try:
            yield manager
        finally:
            manager.bus.disconnect()


@pytest.mark.parametrize("early", [False, True], ids=["the answer first", "the end first"])
async def test_a_slice_is_there_when_its_job_has_ended(early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _machine(tmp_path, monkeypatch) as manager:
        manager.early = early
        systemd = Systemd()
        await asyncio.wait_for(asyncio.gather(systemd.make(NAME, LIMITS), systemd.make("kubepods-pod2.slice", LIMITS)), 5)
        await asyncio.wait_for(systemd.stop(NAME), 5)
    assert [verb for verb, _ in manager.asked] == ["StartTransientUnit", "StartTransientUnit", "StopUnit", "ResetFailedUnit"]


async def test_one_that_is_there_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _machine(tmp_path, monkeypatch) as manager:
        manager.refuse["StartTransientUnit"] = "UnitExists"
        await Systemd().make(NAME, LIMITS)
    assert manager.asked[-1] == ("SetUnitProperties", NAME)


async def test_one_that_is_gone_need_not_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _machine(tmp_path, monkeypatch) as manager:
        manager.refuse["StopUnit"] = "NoSuchUnit"
        await Systemd().stop(NAME)
    assert manager.asked == [("StopUnit", NAME)]


async def test_what_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _machine(tmp_path, monkeypatch) as manager:
        manager.result = "failed"
        with pytest.raises(SystemdError, match="the job ended as failed"):
            await Systemd().make(NAME, LIMITS)
        manager.refuse["StartTransientUnit"] = "AccessDenied"
        with pytest.raises(SystemdError, match=r"StartTransientUnit of kubepods-pod1\.slice: AccessDenied"):
            await Systemd().make(NAME, LIMITS)


async def test_a_lost_bus_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd = Systemd()
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with _machine(folder, monkeypatch) as manager:
            await systemd.make(NAME, LIMITS)
            assert manager.asked == [("StartTransientUnit", NAME)]
        await asyncio.sleep(0.05)
    with pytest.raises(SystemdError, match="cgroupDriver systemd: cannot connect"):
        await systemd.make(NAME, LIMITS)
