"""The nftables ``Backend``: keeps what it last wrote, and writes only the difference in one transaction."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from component import logs
from component.clock import Clock
from netproxy.backends.culprits import culprits
from netproxy.backends.elements import Elements, Ref, by_container, folded
from netproxy.backends.interface import BackendError
from netproxy.backends.nftables import base, names
from netproxy.backends.nftables.render import EMPTY, Rendered, affinity_set, render
from netproxy.backends.options import Options
from netproxy.backends.settings import filter_bridged
from netproxy.kernel.nft import NFT, Existing, NFTError, Transaction, removal
from netproxy.kernel.sysctl import Sysctl
from netproxy.plan import PlanChange, PortRules
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import PortName

_log = logs.get(__name__)
_TURN = 200
"""Ports rendered before other tasks get a turn."""
_STALE_SECONDS = 1.0
"""Kernels before 6.2 take a moment to notice that a map leads to a chain no more: until then it cannot be deleted."""


class NFTablesBackend:
    """Programs one family through nftables. See ``backends.interface`` for what is promised."""

    name = "nftables"

    def __init__(
        self, nft: NFT, sysctl: Sysctl, options: Options, clock: Clock, on_cleanup_failure: Callable[[], object] = lambda: None
    ) -> None:
        """``on_cleanup_failure`` is told when chains that are no longer used could not be deleted; they are tried again."""
        self._nft, self._sysctl, self._clock = nft, sysctl, clock
        self.options = options
        self._on_cleanup_failure = on_cleanup_failure
        self._rendered: dict[PortName, Rendered] = {}
        self._elements: Elements[Ref, str] = Elements()
        self._node_ports: Mapping[str, str] = {}
        self._stale: dict[str, float] = {}

    async def resync(self, ports: Mapping[PortName, PortRules], node: NodeFacts) -> None:
        filter_bridged(self._sysctl, self.options.family)
        rendered: dict[PortName, Rendered] = {}
        for name, rules in ports.items():
            rendered[name] = render(rules, self.options)
            if len(rendered) % _TURN == 0:
                await asyncio.sleep(0)
        node_ports = base.node_port_ips(self.options, node)
        try:
            await self._write_everything(rendered, node_ports)
        except NFTError as error:
            raise BackendError(str(error)) from error
        self._rendered, self._node_ports = rendered, node_ports
        self._elements = Elements()
        for name, each in rendered.items():
            self._elements.change(name, {}, each.elements)

    async def _write_everything(self, rendered: dict[PortName, Rendered], node_ports: Mapping[str, str]) -> None:
        """Over what is there; else, if that is somebody's other layout, in its place; else without the ports that are refused."""
        held = await self._nft.look()
        try:
            await self._nft.run(self._everything(rendered, node_ports, held))
        except NFTError as error:
            held = Existing()
            try:
                await self._nft.run(self._everything(rendered, node_ports, held))
                _log.warning("Replaced the table, whose layout could not be taken over", err=error)
            except NFTError as refusal:
                await self._set_aside(rendered, refusal)
                await self._nft.run(self._everything(rendered, node_ports, held))
        now = self._clock.monotonic()
        kept = {chain for each in rendered.values() for chain in each.chains}
        self._stale = {chain: now for chain in held.chains if names.is_of_port(chain) and chain not in kept}

    async def _set_aside(self, rendered: dict[PortName, Rendered], error: NFTError) -> None:
        """Take out the ports that the kernel refuses, so that the others are served. Raises ``error`` if there are none."""

        async def accepted(part: Sequence[PortName]) -> bool:
            try:
                await self._nft.run(self._everything({name: rendered[name] for name in part}, {}, Existing()), check=True)
            except NFTError:
                return False
            return True

        bad = await culprits(list(rendered), accepted)
        if not bad:
            raise error
        for name in bad:
            del rendered[name]
        _log.error("The kernel refuses the rules of some services, which are not served", services=[*map(str, bad)], err=error)

    def _everything(self, rendered: Mapping[PortName, Rendered], node_ports: Mapping[str, str], held: Existing) -> Transaction:
        """The whole table, over what it holds; in its place if it is said to hold nothing."""
        transaction = Transaction()
        transaction.add("table", "", base.COMMENT)
        if not held.chains:
            transaction.delete("table")
            transaction.add("table", "", base.COMMENT)
        fixed = base.chains(self.options)
        chains = {name: rules for each in rendered.values() for name, rules in each.chains.items()}
        stale = [chain for chain in held.chains if chain not in chains and chain not in fixed]
        for chain in fixed:
            transaction.add("chain", chain, base.definition(chain))
        for chain in chains:
            transaction.add("chain", chain)
        for chain in (*fixed, *chains, *stale):
            transaction.flush("chain", chain)
        containers = base.containers(self.options)
        for name, (kind, definition) in containers.items():
            transaction.add(kind, name, definition)  # type: ignore[arg-type]
            transaction.flush(kind, name)  # type: ignore[arg-type]
        self._replace_sets(
            transaction,
            {name: seconds for name, seconds in held.sets.items() if name not in containers},
            {name: seconds for each in rendered.values() for name, seconds in each.sets.items()},
        )
        for chain, rules in (*fixed.items(), *chains.items()):
            transaction.rules(chain, rules)
        if names.NODE_PORT_IPS in containers:
            transaction.add_elements(names.NODE_PORT_IPS, node_ports)
        elements: Elements[Ref, str] = Elements()
        for port, each in rendered.items():
            elements.change(port, {}, each.elements)
        for container, added in by_container(elements.in_force()).items():
            transaction.add_elements(container, added)
        return transaction

    def _replace_sets(self, transaction: Transaction, old: Mapping[str, int], new: Mapping[str, int]) -> None:
        """Sets of clients that stay as they are keep their elements. Chains that use them must be flushed before this."""
        for name, seconds in old.items():
            if new.get(name) != seconds:
                transaction.delete("set", name)
        for name, seconds in new.items():
            if old.get(name) != seconds:
                transaction.add("set", name, affinity_set(self.options, seconds))

    async def apply(self, change: PlanChange) -> None:
        await self._delete_stale()
        rendered = {name: render(rules, self.options) if rules else EMPTY for name, rules in change.ports.items()}
        pairs = [(name, self._rendered.get(name, EMPTY), new) for name, new in rendered.items()]
        transaction = Transaction()
        written, gone = self._change_chains(transaction, [(old, new) for _, old, new in pairs])
        elements = folded([each for name, old, new in pairs for each in self._elements.change(name, old.elements, new.elements)])
        for container, left in by_container((ref, old) for ref, (old, _) in elements.items()).items():
            transaction.delete_elements(container, left)
        for _, old, new in pairs:
            self._replace_sets(transaction, old.sets, new.sets)
        for chain, rules in written.items():
            transaction.rules(chain, rules)
        for container, added in by_container((ref, new) for ref, (_, new) in elements.items()).items():
            transaction.add_elements(container, added)
        node_ports = base.node_port_ips(self.options, change.node)
        if node_ports != self._node_ports:
            transaction.delete_elements(names.NODE_PORT_IPS, self._node_ports)
            transaction.add_elements(names.NODE_PORT_IPS, node_ports)
        try:
            await self._nft.run(transaction)
        except NFTError as error:
            raise BackendError(str(error)) from error
        for name, new in rendered.items():
            if new is EMPTY:
                self._rendered.pop(name, None)
            else:
                self._rendered[name] = new
        self._node_ports = node_ports
        self._stale.update(dict.fromkeys(gone, self._clock.monotonic()))

    def _change_chains(
        self, transaction: Transaction, pairs: Iterable[tuple[Rendered, Rendered]]
    ) -> tuple[Mapping[str, tuple[str, ...]], Sequence[str]]:
        """Make and empty what is to be written, empty what is not needed any more; both, the rules still to be added."""
        written: dict[str, tuple[str, ...]] = {}
        gone: list[str] = []
        for old, new in pairs:
            # a set of another timeout is a new set, which those that use it must be told
            all_anew = old.sets != new.sets
            written.update({name: lines for name, lines in new.chains.items() if all_anew or old.chains.get(name) != lines})
            gone += [name for name in old.chains if name not in new.chains]
        for chain in written:
            transaction.add("chain", chain)
            self._stale.pop(chain, None)
        for chain in (*written, *gone):
            transaction.flush("chain", chain)
        return written, gone

    async def _delete_stale(self) -> None:
        """In a transaction of its own: chains without rules to which nothing leads harm nobody."""
        now = self._clock.monotonic()
        ripe = [chain for chain, since in self._stale.items() if now - since >= _STALE_SECONDS]
        transaction = Transaction()
        for chain in ripe:
            transaction.delete("chain", chain)
        try:
            await self._nft.run(transaction)
        except NFTError as error:
            self._on_cleanup_failure()
            self._stale.update(dict.fromkeys(ripe, now))
            _log.error("Cannot delete chains that are no longer used, trying again later", count=len(ripe), err=error)
            return
        for chain in ripe:
            del self._stale[chain]

    async def intact(self) -> bool:
        """Whether the table is there with its rules: a flush takes either."""
        try:
            return await self._nft.rule_count(names.SERVICES) > 0
        except NFTError as error:
            raise BackendError(str(error)) from error

    async def cleanup(self) -> None:
        try:
            await self._nft.run(removal())
        except NFTError as error:
            raise BackendError(str(error)) from error
        self._rendered, self._elements, self._node_ports, self._stale = {}, Elements(), {}, {}
