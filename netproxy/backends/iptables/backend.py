"""The iptables ``Backend``: keeps what it last wrote, and writes only the difference in one transaction."""

import asyncio
from collections.abc import Mapping

from component import logs
from netproxy.backends.interface import BackendError
from netproxy.backends.iptables import names
from netproxy.backends.iptables.base import JUMPS, SHARED, ChainRef, fixed, loopback_node_ports, tails
from netproxy.backends.iptables.quarantine import refused
from netproxy.backends.iptables.removal import removal
from netproxy.backends.iptables.render import EMPTY, Rendered, render
from netproxy.backends.options import Options
from netproxy.backends.settings import filter_bridged, switch_on
from netproxy.kernel.iptables import TABLES, Chains, IPTables, IPTablesError, TableChange, Transaction, target_of
from netproxy.kernel.sysctl import Sysctl
from netproxy.plan import PlanChange, PortRules
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import PortName

_log = logs.get(__name__)
_TURN = 200
"""Ports rendered before other tasks get a turn."""
_MAX_DELTAS = 50
"""More changed lines than this in one shared chain, and writing the chain anew is cheaper: each deletion searches it."""


class IPTablesBackend:
    """Programs one family through iptables. See ``backends.interface`` for what is promised."""

    name = "iptables"

    def __init__(self, tables: IPTables, sysctl: Sysctl, options: Options) -> None:
        self._tables = tables
        self._sysctl = sysctl
        self.options = options
        self._rendered: dict[PortName, Rendered] = {}
        self._tails: Mapping[ChainRef, tuple[str, ...]] = {}

    async def resync(self, ports: Mapping[PortName, PortRules], node: NodeFacts) -> None:
        self._prepare_kernel()
        rendered: dict[PortName, Rendered] = {}
        for name, rules in ports.items():
            rendered[name] = render(rules, self.options)
            if len(rendered) % _TURN == 0:
                await asyncio.sleep(0)
        last = tails(self.options, node)
        try:
            try:
                await self._write_everything(rendered, last)
            except IPTablesError as error:
                await self._set_aside(rendered, error)
                await self._write_everything(rendered, last)
        except IPTablesError as error:
            raise BackendError(str(error)) from error
        self._rendered, self._tails = rendered, last

    async def _set_aside(self, rendered: dict[PortName, Rendered], error: IPTablesError) -> None:
        """Take out the ports that the kernel refuses, so that the others are served. Raises ``error`` if there are none."""
        bad = await refused(self._tables, self.options, rendered)
        if not bad:
            raise error
        for name in bad:
            del rendered[name]
        _log.error("The kernel refuses the rules of some services, which are not served", services=[*map(str, bad)], err=error)

    async def _write_everything(self, rendered: Mapping[PortName, Rendered], last: Mapping[ChainRef, tuple[str, ...]]) -> None:
        held = await self._tables.save()
        await self._tables.restore(self._everything(rendered, last, held))

    async def apply(self, change: PlanChange) -> None:
        transaction = Transaction()
        nat = transaction.table("nat")
        rendered = {name: render(rules, self.options) if rules else EMPTY for name, rules in change.ports.items()}
        deltas: dict[ChainRef, tuple[list[str], list[str]]] = {ref: ([], []) for ref in SHARED}
        for name, new in rendered.items():
            old = self._rendered.get(name, EMPTY)
            nat.chains.update({chain: lines for chain, lines in new.chains.items() if old.chains.get(chain) != lines})
            nat.removed += [chain for chain in old.chains if chain not in new.chains]
            _note_deltas(deltas, old, new)
        merged = {**self._rendered, **rendered}
        last = tails(self.options, change.node)
        for ref, (gone, fresh) in deltas.items():
            rewrite = len(gone) + len(fresh) > _MAX_DELTAS or last.get(ref, ()) != self._tails.get(ref, ())
            self._share(transaction.table(ref[0]), ref, (gone, fresh), (merged, last) if rewrite else None)
        try:
            await self._tables.restore(transaction)
        except IPTablesError as error:
            raise BackendError(str(error)) from error
        for name, new in rendered.items():
            if new is EMPTY:
                self._rendered.pop(name, None)
            else:
                self._rendered[name] = new
        self._tails = last

    async def intact(self) -> bool:
        try:
            return all([await self._tables.has_chain(table, names.CANARY) for table in TABLES])
        except IPTablesError as error:
            raise BackendError(str(error)) from error

    async def cleanup(self) -> None:
        try:
            await self._tables.restore(removal(await self._tables.save()))
        except IPTablesError as error:
            raise BackendError(str(error)) from error
        self._rendered, self._tails = {}, {}

    def rules_in(self, table: str) -> int:
        """How many rules the table holds for services; looks at each, so it is asked when metrics are read."""
        own = sum(len(lines) for each in self._rendered.values() for lines in each.chains.values()) if table == "nat" else 0
        shared = (len(lines) for each in self._rendered.values() for ref, lines in each.shared.items() if ref[0] == table)
        return own + sum(shared)

    @staticmethod
    def _share(
        change: TableChange,
        ref: ChainRef,
        delta: tuple[list[str], list[str]],
        rewrite: tuple[Mapping[PortName, Rendered], Mapping[ChainRef, tuple[str, ...]]] | None,
    ) -> None:
        if rewrite is not None:
            merged, last = rewrite
            change.chains[ref[1]] = _shared_chain(ref, merged, last)
            return
        change.deletes += [(ref[1], line) for line in delta[0]]
        change.inserts += [(ref[1], line) for line in delta[1]]

    def _everything(
        self, rendered: Mapping[PortName, Rendered], last: Mapping[ChainRef, tuple[str, ...]], held: Mapping[str, Chains]
    ) -> Transaction:
        """All chains written anew, jumps that are missing, chains of services that are gone removed."""
        transaction = Transaction()
        for table in TABLES:
            transaction.table(table).chains[names.CANARY] = ()
        for (table, chain), lines in fixed(self.options).items():
            transaction.table(table).chains[chain] = lines
        nat = transaction.table("nat")
        for each in rendered.values():
            nat.chains.update(each.chains)
        for ref in reversed(SHARED):
            transaction.table(ref[0]).chains[ref[1]] = _shared_chain(ref, rendered, last)
        stale = [chain for chain in held.get("nat", {}) if chain.startswith(names.PORT_PREFIXES)]
        nat.removed += [chain for chain in stale if chain not in nat.chains]
        for table in ("nat", "filter"):
            if names.TRIAL in held.get(table, {}):
                transaction.table(table).removed.append(names.TRIAL)
        # each insertion goes to the head, so the last jump first
        for jump in reversed(JUMPS):
            present = {target_of(rule) for rule in held.get(jump.table, {}).get(jump.parent, ())}
            if jump.chain not in present:
                transaction.table(jump.table).inserts.append((jump.parent, jump.rule))
        return transaction

    def _prepare_kernel(self) -> None:
        if loopback_node_ports(self.options):
            switch_on(self._sysctl, "net/ipv4/conf/all/route_localnet", "node ports will not answer on 127.0.0.1")
        filter_bridged(self._sysctl, self.options.family)


def _note_deltas(deltas: dict[ChainRef, tuple[list[str], list[str]]], old: Rendered, new: Rendered) -> None:
    for ref, (gone, fresh) in deltas.items():
        before, after = old.shared.get(ref, ()), new.shared.get(ref, ())
        if before != after:
            gone += [line for line in before if line not in after]
            fresh += [line for line in after if line not in before]


def _shared_chain(
    ref: ChainRef, rendered: Mapping[PortName, Rendered], last: Mapping[ChainRef, tuple[str, ...]]
) -> tuple[str, ...]:
    lines = [line for each in rendered.values() for line in each.shared.get(ref, ())]
    return (*lines, *last.get(ref, ()))
