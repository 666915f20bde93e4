"""A strict iptables in memory: refuses what the real one refuses, so that tests without root find the same mistakes.

It does not imitate: packets, counters, modules' own syntax, the xtables lock.
"""

from netproxy.kernel.iptables import Chains, IPTablesError, TableChange, Transaction

_BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
}
_TARGETS = {
    "filter": {"ACCEPT", "DROP", "RETURN", "REJECT", "MARK", "LOG"},
    "nat": {"ACCEPT", "DROP", "RETURN", "DNAT", "SNAT", "MASQUERADE", "MARK", "LOG"},
    "mangle": {"ACCEPT", "DROP", "RETURN", "MARK", "LOG"},
}


class FakeIPTables:
    """Tables as dicts of chains. ``fail_next`` makes the next transaction fail, ``lacks`` every one with such a text in it;
    ``transactions`` records the texts."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, list[str]]] = {
            table: {chain: [] for chain in chains} for table, chains in _BUILT_IN.items()
        }
        self.transactions: list[bytes] = []
        self.fail_next: str | None = None
        self.lacks: str | None = None

    async def restore(self, transaction: Transaction) -> None:
        if not transaction:
            return
        self.transactions.append(transaction.render())
        if self.fail_next is not None:
            message, self.fail_next = self.fail_next, None
            raise IPTablesError(message)
        if self.lacks is not None and self.lacks in transaction.render().decode():
            raise IPTablesError(f"{self.lacks}: no such extension")
        for name, change in transaction.tables.items():
            if change:
                self.tables[name] = self._applied(name, change)

    async def save(self) -> dict[str, Chains]:
        return {table: {chain: tuple(rules) for chain, rules in chains.items()} for table, chains in self.tables.items()}

    async def has_chain(self, table: str, chain: str) -> bool:
        return chain in self.tables[table]

    def flush(self) -> None:
        """What a careless administrator does: every rule and chain gone."""
        for table, chains in _BUILT_IN.items():
            self.tables[table] = {chain: [] for chain in chains}

    def _applied(self, name: str, change: TableChange) -> dict[str, list[str]]:
        table = {chain: list(rules) for chain, rules in self.tables[name].items()}
        for chain in (*change.chains, *change.removed):
            _check_name(chain)
            table[chain] = []
        for chain, rule in change.deletes:
            if rule not in table.get(chain, ()):
                raise IPTablesError(f"{name}: -D {chain} {rule}: no such rule")
            table[chain].remove(rule)
        for chain, rule in change.inserts:
            _need(table, chain, name).insert(0, rule)
        for chain, rules in change.chains.items():
            table[chain] += rules
        for chain in change.removed:
            del table[chain]
        _check_targets(name, table)
        return table


def _check_name(chain: str) -> None:
    if not 0 < len(chain) < 29:
        raise IPTablesError(f"chain name {chain!r} is too long (must be under 29 chars)")


def _need(table: dict[str, list[str]], chain: str, name: str) -> list[str]:
    if chain not in table:
        raise IPTablesError(f"{name}: no chain {chain}")
    return table[chain]


def _check_targets(name: str, table: dict[str, list[str]]) -> None:
    for chain, rules in table.items():
        for rule in rules:
            words = rule.split()
            target = words[words.index("-j") + 1] if "-j" in words else "RETURN"
            if target not in _TARGETS[name] and target not in table:
                raise IPTablesError(f"{name}: -A {chain} {rule}: no chain {target}")
