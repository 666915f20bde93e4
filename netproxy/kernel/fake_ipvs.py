"""Strict virtual servers, sets and addresses in memory: they refuse what the kernel refuses.

They do not imitate: packets, schedulers, connections (a test says how many there are).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netproxy.kernel.addresses import Addresses
from netproxy.kernel.ipset import IPSetError, SetChange
from netproxy.kernel.ipvs import IPVS, Call, Held, IPVSError, Real, RealState, Server


class FakeIPVS(IPVS):
    """``calls`` records all that was asked for. ``fail_next`` makes the next ``run`` fail as a whole; ``connections``: how many a
    real server has, whatever its virtual one."""

    def __init__(self) -> None:
        self.held: dict[Server, Held] = {}
        self.calls: list[Call] = []
        self.connections: dict[Real, int] = {}
        self.fail_next: str | None = None

    async def servers(self) -> Mapping[Server, Held]:
        return {server: replace(held, reals=await self.reals(server)) for server, held in self.held.items()}

    async def reals(self, server: Server) -> Mapping[Real, RealState]:
        held = self.held.get(server)
        reals = held.reals if held else {}
        return {real: replace(state, connections=self.connections.get(real, 0)) for real, state in reals.items()}

    async def run(self, calls: Sequence[Call]) -> Mapping[Call, str]:
        if calls and self.fail_next is not None:
            message, self.fail_next = self.fail_next, None
            raise IPVSError(message)
        self.calls += calls
        return {call: f"{call}: {why}" for call in calls if (why := self._done(call))}

    def state(self) -> Mapping[Server, object]:
        """Settings and weights."""
        found = self.held.items()
        return {server: (held.settings, {real: each.weight for real, each in held.reals.items()}) for server, held in found}

    def _done(self, call: Call) -> str:
        """Why not, empty when it was done."""
        held = self.held.get(call.server)
        if call.verb == "add server":
            if held is not None:
                return "File exists"
            assert call.settings is not None
            if call.settings.timeout >= 1 << 32:
                return "argument out of range"
            self.held[call.server] = Held(call.settings)
            return ""
        if held is None:
            return "No such process"
        if call.verb == "delete server":
            del self.held[call.server]
        elif call.verb == "set server":
            assert call.settings is not None
            self.held[call.server] = replace(held, settings=call.settings)
        else:
            return self._done_to_real(call, held)
        return ""

    def _done_to_real(self, call: Call, held: Held) -> str:
        assert call.real is not None
        reals = dict(held.reals)
        if (call.real in reals) == (call.verb == "add real"):
            return "File exists" if call.verb == "add real" else "No such file or directory"
        if call.verb == "delete real":
            del reals[call.real]
        else:
            reals[call.real] = RealState(call.weight)
        self.held[call.server] = replace(held, reals=reals)
        return ""


class FakeIPSets:
    """``changes`` records what was to be done."""

    def __init__(self) -> None:
        self.sets: dict[str, set[str]] = {}
        self.changes: list[SetChange] = []
        self.fail_next: str | None = None

    async def entries(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(entries) for name, entries in self.sets.items()}

    async def restore(self, change: SetChange) -> None:
        if not change.render("IPv4"):
            return
        if self.fail_next is not None:
            message, self.fail_next = self.fail_next, None
            raise IPSetError(message)
        self.changes.append(change)
        for name in change.created:
            if len(name) > 31:
                raise IPSetError(f"{name}: setname is longer than 31 characters")
            self.sets.setdefault(name, set())
        for name in {**change.deleted, **change.added}:
            if name not in self.sets:
                raise IPSetError(f"{name}: The set with the given name does not exist")
        for name, entries in change.deleted.items():
            self.sets[name] -= set(entries)
        for name, entries in change.added.items():
            if any(entry.endswith("/0") for entry in entries):
                raise IPSetError("The value of the CIDR parameter of the IP address is invalid")
            self.sets[name] |= set(entries)

    async def destroy(self, names: Iterable[str]) -> None:
        for name in names:
            self.sets.pop(name, None)


@dataclass
class FakeAddresses:
    """``node`` are the machine's own."""

    node: set[str] = field(default_factory=lambda: {"10.0.0.1"})
    bound: set[str] | None = None

    async def look(self) -> Addresses:
        return Addresses(frozenset(self.node), None if self.bound is None else frozenset(self.bound))

    async def ensure_device(self) -> None:
        self.bound = self.bound or set()

    async def change(self, added: Iterable[str], removed: Iterable[str]) -> Mapping[str, str]:
        assert self.bound is not None
        self.bound |= set(added)
        self.bound -= set(removed)
        return {}
