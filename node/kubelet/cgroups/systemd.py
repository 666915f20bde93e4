"""Slices by systemd: the only process that may make cgroups below its own when cgroupDriver is systemd.

``manager.py`` asks for a slice with its limits and takes it away again. Names follow systemd.slice(5): the cgroup
``/kubepods/burstable/pod1-2`` is ``kubepods-burstable-pod1_2.slice``, and lies below the slices that its name begins with.
Interface: org.freedesktop.systemd1(5). The library is imported only where this driver is used.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Protocol

from component import logs
from node.kubelet.cgroups.plan import Limits, cpu_weight

_BUS, _PATH, _MANAGER = "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
_INFINITY = 2**64 - 1
_TIMEOUT = 30.0  # what systemd gives a job is 90 s; slices start at once
_log = logs.get(__name__)

Property = tuple[str, str, Any]
"""Name, D-Bus signature, value."""


class SystemdError(OSError):
    """systemd is not there, or does not do what is asked."""


class Slices(Protocol):
    """What the manager needs of systemd."""

    async def make(self, name: str, properties: Sequence[Property]) -> None:
        """Start a slice, or change the one that is there. Raises SystemdError."""
        ...

    async def stop(self, name: str) -> None:
        """With all that runs in it; nothing if it is not there. Raises SystemdError."""
        ...


def slice_name(path: PurePosixPath) -> str:
    """The slice of a cgroup that is named as with cgroupfs."""
    return "-".join(_word(part) for part in path.parts[1:]) + ".slice"


def slice_path(path: PurePosixPath) -> PurePosixPath:
    """Where that slice lies in the hierarchy: ``/kubepods.slice/kubepods-burstable.slice/...``"""
    words = [_word(part) for part in path.parts[1:]]
    return PurePosixPath("/", *("-".join(words[: end + 1]) + ".slice" for end in range(len(words))))


def _word(part: str) -> str:
    return part.removesuffix(".slice").replace("-", "_")


def uid_of_slice(name: str) -> str | None:
    """The uid of the pod whose slice it is: ``kubepods-burstable-pod1_2.slice`` is that of pod ``1-2``."""
    last = name.removesuffix(".slice").rpartition("-")[2]
    return last.removeprefix("pod").replace("_", "-") if name.endswith(".slice") and last.startswith("pod") else None


def properties(limits: Limits, version: int) -> list[Property]:
    """Limits in systemd's words for cgroup v1 or v2. Accounting is what makes systemd turn the controllers on."""
    made: list[Property] = [("CPUAccounting", "b", True), ("MemoryAccounting", "b", True), ("TasksAccounting", "b", True)]
    if version == 2:
        made.append(("IOAccounting", "b", True))
    if limits.shares is not None:
        made.append(("CPUWeight", "t", cpu_weight(limits.shares)) if version == 2 else ("CPUShares", "t", limits.shares))
    if limits.quota == -1:
        made.append(("CPUQuotaPerSecUSec", "t", _INFINITY))
    elif limits.quota is not None:
        # systemd keeps whole percents of a CPU: rounded up, so that it never gives less; the exact quota is written besides.
        per_second = limits.quota * 1_000_000 // limits.period
        made.append(("CPUQuotaPerSecUSec", "t", -(-per_second // 10_000) * 10_000))
    if limits.memory is not None:
        made.append(("MemoryMax" if version == 2 else "MemoryLimit", "t", limits.memory))
    if limits.pids is not None:
        made.append(("TasksMax", "t", limits.pids))
    return made


class Systemd:
    """The real one, over the system's D-Bus. Connects when first used, and again after the bus was lost."""

    def __init__(self) -> None:
        self._bus: Any = None
        self._connecting = asyncio.Lock()
        self._jobs: dict[str, asyncio.Future[str]] = {}
        self._ended: dict[str, str] = {}

    async def make(self, name: str, properties: Sequence[Property]) -> None:
        from dbus_fast import Variant

        given = [[key, Variant(signature, value)] for key, signature, value in properties]
        fixed = [["Description", Variant("s", f"Kubernetes: {name}")], ["DefaultDependencies", Variant("b", False)]]
        try:
            await self._job("StartTransientUnit", "ssa(sv)a(sa(sv))", [name, "replace", [*fixed, *given], []], name)
        except _ExistsError:
            await self._call("SetUnitProperties", "sba(sv)", [name, True, given])

    async def stop(self, name: str) -> None:
        try:
            await self._job("StopUnit", "ss", [name, "replace"], name)
        except _NoSuchError:
            return
        try:  # a slice whose processes had to be killed stays behind as failed
            await self._call("ResetFailedUnit", "s", [name])
        except SystemdError:
            return

    def close(self) -> None:
        """Leave the bus; slices stay."""
        if self._bus is not None:
            self._bus.disconnect()
            self._bus = None

    async def _job(self, member: str, signature: str, body: list[Any], name: str) -> None:
        """Ask for a job and wait for its end, which may be told before the answer to the call."""
        job = str((await self._call(member, signature, body)).body[0])
        if job not in self._ended:
            self._jobs[job] = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait_for(self._jobs[job], _TIMEOUT)
            except TimeoutError:
                raise SystemdError(f"{member} of {name}: systemd has not done it in {_TIMEOUT:g} s") from None
            finally:
                del self._jobs[job]
        result = self._ended.pop(job, "")
        if result not in ("done", "skipped"):
            raise SystemdError(f"{member} of {name}: the job ended as {result or 'lost'}")

    def _received(self, message: Any) -> None:
        if message.member != "JobRemoved" or message.interface != _MANAGER:
            return
        job, unit, result = str(message.body[1]), str(message.body[2]), str(message.body[3])
        if not unit.endswith(".slice"):
            return
        self._ended[job] = result
        if (waiting := self._jobs.get(job)) is not None and not waiting.done():
            waiting.set_result(result)
        while len(self._ended) > 1000:  # jobs of others
            self._ended.pop(next(iter(self._ended)))

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                from dbus_fast import BusType, Message
                from dbus_fast.aio import MessageBus

                try:
                    self._bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
                except (OSError, EOFError, ValueError, ImportError) as error:
                    raise SystemdError(f"cgroupDriver systemd: cannot connect to the system's D-Bus: {error}") from None
                rule = f"type='signal',interface='{_MANAGER}',member='JobRemoved',path='{_PATH}'"
                bus = "org.freedesktop.DBus"
                added = Message(
                    destination=bus, path="/org/freedesktop/DBus", interface=bus, member="AddMatch", signature="s", body=[rule]
                )
                await self._bus.call(added)
                self._bus.add_message_handler(self._received)
                await self._bus.call(Message(destination=_BUS, path=_PATH, interface=_MANAGER, member="Subscribe"))
        return self._bus

    async def _call(self, member: str, signature: str, body: list[Any]) -> Any:
        from dbus_fast import Message, MessageType

        bus = await self._connected()
        message = Message(destination=_BUS, path=_PATH, interface=_MANAGER, member=member, signature=signature, body=body)
        try:
            reply = await asyncio.wait_for(bus.call(message), _TIMEOUT)
        except (OSError, EOFError, TimeoutError) as error:
            raise SystemdError(f"{member} of {body[0]}: {error or type(error).__name__}") from None
        if reply is None or reply.message_type is MessageType.ERROR:
            kind = _ERRORS.get(str(reply.error_name) if reply is not None else "", SystemdError)
            raise kind(f"{member} of {body[0]}: {reply.body[0] if reply is not None and reply.body else 'no answer'}")
        return reply


class _ExistsError(SystemdError):
    """The slice is there."""


class _NoSuchError(SystemdError):
    """The slice is not there."""


_ERRORS: Mapping[str, type[SystemdError]] = {
    "org.freedesktop.systemd1.UnitExists": _ExistsError,
    "org.freedesktop.systemd1.NoSuchUnit": _NoSuchError,
}
