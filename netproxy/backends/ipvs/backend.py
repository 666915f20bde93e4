"""The ipvs ``Backend``: keeps what it last wrote, and makes only the calls for the difference.

Unlike the other modes it has no transaction over all: sets are filled first, then virtual servers are made, then their addresses
are bound, so that whoever is answered is answered rightly; taking away goes the other way round.
"""

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from component import logs
from component.clock import Clock
from netproxy.backends.elements import Ref
from netproxy.backends.interface import BackendError
from netproxy.backends.ipvs import names, rules
from netproxy.backends.ipvs.difference import difference, retiring, written
from netproxy.backends.ipvs.render import here
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.ipvs.state import State
from netproxy.backends.ipvs.sysctls import prepare
from netproxy.backends.options import Options
from netproxy.kernel.addresses import AddressError, LocalAddresses
from netproxy.kernel.ipset import IPSetError, IPSets, SetChange
from netproxy.kernel.iptables import IPTables, IPTablesError, Transaction, target_of
from netproxy.kernel.ipvs import IPVS, Call, IPVSError, Server
from netproxy.kernel.sysctl import Sysctl
from netproxy.plan import PlanChange, PortRules
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import PortName

_log = logs.get(__name__)
_TURN = 200
"""Ports rendered before other tasks get a turn."""
_REAP_SECONDS = 60.0
"""How often to look whether real servers with weight 0 have lost their last connection."""
_MAX_REFUSED = 20
_ERRORS = (IPVSError, IPSetError, IPTablesError, AddressError)


@dataclass(frozen=True, slots=True)
class Kernel:
    """What this backend programs, for one address family."""

    ipvs: IPVS
    sets: IPSets
    tables: IPTables
    addresses: LocalAddresses
    sysctl: Sysctl


class IPVSBackend:
    """Programs one family through virtual servers. See ``backends.interface`` for what is promised."""

    name = "ipvs"

    def __init__(self, kernel: Kernel, options: Options, settings: IPVSSettings, clock: Clock) -> None:
        self._kernel, self.options, self._settings, self._clock = kernel, options, settings, clock
        self._excluded = [ipaddress.ip_network(each, strict=False) for each in settings.exclude_cidrs]
        self._state = State(options, settings)
        self._reaped = clock.monotonic()

    async def resync(self, ports: Mapping[PortName, PortRules], node: NodeFacts) -> None:
        prepare(self._kernel.sysctl, self.options.family, self._settings)
        try:
            await self._kernel.addresses.ensure_device()
            state = await self._render(ports, node)
            bad = await self._write_everything(state)
            if bad:
                state = await self._render({name: each for name, each in ports.items() if name not in bad}, node)
                # those that are not served are kept, so that a later change of addresses tries them again
                state.ports = dict(ports)
                await self._write_everything(state)
        except _ERRORS as error:
            raise BackendError(str(error)) from error
        self._state = state

    async def _render(self, ports: Mapping[PortName, PortRules], node: NodeFacts) -> State:
        found = await self._kernel.addresses.look()
        state = State(self.options, self._settings, node, here(found.node, self.options, node))
        for name, each in ports.items():
            state.change({name: each})
            if len(state.rendered) % _TURN == 0:
                await asyncio.sleep(0)
        return state

    async def _write_everything(self, state: State) -> set[PortName]:
        """Make the kernel hold this; the ports of which it refuses something. Raises what the kernel raises."""
        kernel = self._kernel
        sets = await kernel.sets.entries()
        mine = {names.set_name(name, self.options.family): kind for name, kind in names.SETS.items()}
        wanted: dict[str, set[str]] = {name: set() for name in mine}
        for (name, entry), _ in state.entries.in_force():
            wanted[name].add(entry)
        missing = {name: entries - sets.get(name, frozenset()) for name, entries in wanted.items()}
        await kernel.sets.restore(SetChange(created=mine, added=_sorted(missing)))
        await kernel.tables.restore(self._everything(state, await kernel.tables.save()))
        held = await kernel.ipvs.servers()
        servers = dict(state.servers.in_force())
        calls = [call for server, each in servers.items() for call in difference(server, held.get(server), each)]
        refused: dict[Server | str, str] = {call.server: why for call, why in (await kernel.ipvs.run(calls)).items()}
        bound = {address for address, _ in state.bound.in_force()}
        before = (await kernel.addresses.look()).bound or frozenset()
        refused.update(await kernel.addresses.change(sorted(bound - before), sorted(before - bound)))
        left = [server for server in held if server not in servers and not self._is_foreign(server)]
        await kernel.ipvs.run([Call("delete server", server) for server in left])
        superfluous = {name: sets.get(name, frozenset()) - entries for name, entries in wanted.items()}
        await kernel.sets.restore(SetChange(deleted=_sorted(superfluous)))
        state.retiring = {
            server: found for server, each in servers.items() if (found := retiring(server, held.get(server), each))
        }
        await self._reap(state, [*state.retiring])
        return self._culprits(state, refused)

    def _culprits(self, state: State, refused: Mapping[Server | str, str]) -> set[PortName]:
        """The ports that want a server or an address that was refused. :raises IPVSError: when there are too many of them."""
        if not refused:
            return set()
        bad = {
            name
            for name, each in state.rendered.items()
            if any(server in refused for server in each.servers) or any(address in refused for address in each.bound)
        }
        why = next(iter(refused.values()))
        if len(bad) > _MAX_REFUSED:
            raise IPVSError(why)
        _log.error("The kernel refuses the rules of some services, which are not served", services=[*map(str, bad)], err=why)
        return bad

    async def apply(self, change: PlanChange) -> None:
        state = self._state
        try:
            if change.node != state.node:
                found = await self._kernel.addresses.look()
                if here(found.node, self.options, change.node) != state.here:
                    merged = {**state.ports, **change.ports}
                    await self.resync({name: each for name, each in merged.items() if each is not None}, change.node)
                    return
            await self._apply(state, change)
            if self._clock.monotonic() - self._reaped >= _REAP_SECONDS:
                await self._reap(state, [*state.retiring])
        except _ERRORS as error:
            raise BackendError(str(error)) from error
        state.node = change.node

    async def _apply(self, state: State, change: PlanChange) -> None:
        delta, kernel = state.change(change.ports), self._kernel
        await kernel.sets.restore(SetChange(added=_by_set(ref for ref, (_, new) in delta.entries.items() if new is not None)))
        if delta.filters:
            transaction = Transaction()
            transaction.table("filter").chains[names.IPVS_OUT_FILTER] = state.out_filter()
            await kernel.tables.restore(transaction)
        calls: list[Call] = []
        touched: list[Server] = []
        for server, (old, new) in delta.servers.items():
            held = written(old, state.retiring.pop(server, ()))
            calls += difference(server, held, new)
            if leaving := retiring(server, held, new):
                state.retiring[server] = leaving
                touched.append(server)
        refused = [*(await kernel.ipvs.run([call for call in calls if call.verb != "delete server"])).values()]
        added = [each for each, (_, new) in delta.bound.items() if new is not None]
        removed = [each for each, (_, new) in delta.bound.items() if new is None]
        refused += (await kernel.addresses.change(added, removed)).values()
        refused += (await kernel.ipvs.run([call for call in calls if call.verb == "delete server"])).values()
        if refused:
            raise IPVSError("; ".join(refused[:3]))
        await kernel.sets.restore(SetChange(deleted=_by_set(ref for ref, (_, new) in delta.entries.items() if new is None)))
        await self._reap(state, touched)

    async def _reap(self, state: State, servers: Iterable[Server]) -> None:
        """Delete the real servers with weight 0 that have no connection left."""
        calls: list[Call] = []
        for server in servers:
            found = await self._kernel.ipvs.reals(server)
            leaving = state.retiring.get(server, frozenset())
            busy = frozenset(real for real in leaving if real in found and found[real].connections)
            calls += [Call("delete real", server, real=real) for real in sorted((leaving - busy) & found.keys())]
            if busy:
                state.retiring[server] = busy
            else:
                state.retiring.pop(server, None)
        for why in (await self._kernel.ipvs.run(calls)).values():
            _log.warning("Cannot delete a real server that is used no more", err=why)
        self._reaped = self._clock.monotonic()

    async def intact(self) -> bool:
        """Whether chains, device and virtual servers are there, and this machine's addresses are those that it was done for."""
        state, kernel = self._state, self._kernel
        try:
            await self._reap(state, [*state.retiring])
            found = await kernel.addresses.look()
            sample = next((server for server, each in state.servers.in_force() if each.reals), None)
            return (
                found.bound == frozenset(address for address, _ in state.bound.in_force())
                and here(found.node, self.options, state.node) == state.here
                and (sample is None or bool(await kernel.ipvs.reals(sample)))
                and await kernel.tables.has_chain("nat", names.SERVICES)
                and await kernel.tables.has_chain("filter", names.IPVS_FILTER)
            )
        except _ERRORS as error:
            raise BackendError(str(error)) from error

    async def cleanup(self) -> None:
        kernel = self._kernel
        try:
            ours = [server for server in await kernel.ipvs.servers() if not self._is_foreign(server)]
            await kernel.ipvs.run([Call("delete server", server) for server in ours])
            await kernel.addresses.change([], (await kernel.addresses.look()).bound or ())
            await kernel.tables.restore(rules.removal(await kernel.tables.save()))
            await kernel.sets.destroy(names.set_name(name, self.options.family) for name in names.SETS)
        except _ERRORS as error:
            raise BackendError(str(error)) from error
        self._state = State(self.options, self._settings)

    def _is_foreign(self, server: Server) -> bool:
        return any(ipaddress.ip_address(server.address) in network for network in self._excluded)

    def _everything(self, state: State, held: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Transaction:
        transaction = Transaction()
        for (table, chain), lines in rules.chains(self.options).items():
            transaction.table(table).chains[chain] = lines
        transaction.table("filter").chains[names.IPVS_OUT_FILTER] = state.out_filter()
        for table, parent, chain, comment in rules.JUMPS:
            if chain not in {target_of(rule) for rule in held.get(table, {}).get(parent, ())}:
                transaction.table(table).inserts.append((parent, f'-m comment --comment "{comment}" -j {chain}'))
        return transaction


def _sorted(entries: Mapping[str, AbstractSet[str]]) -> dict[str, list[str]]:
    return {name: sorted(each) for name, each in entries.items() if each}


def _by_set(entries: Iterable[Ref]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, entry in entries:
        found.setdefault(name, []).append(entry)
    return found
