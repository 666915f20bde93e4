"""Taking away: from what ``iptables-save`` shows to the transaction that removes all of ours. Pure; used by ``cleanup``."""

from netproxy.backends.iptables import names
from netproxy.kernel.iptables import TABLES, Chains, Tables, Transaction, target_of

_NAMED = frozenset(
    {
        names.SERVICES,
        names.EXTERNAL_SERVICES,
        names.NODE_PORTS,
        names.POSTROUTING,
        names.MARK_MASQ,
        names.FORWARD,
        names.PROXY_FIREWALL,
        names.FIREWALL,
        names.CANARY,
        names.TRIAL,
        *names.OF_IPVS,
    }
)

_BUILT_IN = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")


def is_ours(chain: str) -> bool:
    return chain in _NAMED or chain.startswith(names.PORT_PREFIXES)


def removal(tables: Tables) -> Transaction:
    """The transaction that removes every chain and jump of ours. A chain to which foreign rules lead is left alone, and
    so is what an upstream kubelet on this host keeps as its own."""
    keep = {names.FIREWALL} if any(names.KUBELET_CANARY in chains for chains in tables.values()) else set()
    transaction = Transaction()
    for table in TABLES:
        chains = tables.get(table, {})
        _remove(transaction, table, dict(chains), keep)
    return transaction


def _remove(transaction: Transaction, table: str, chains: Chains, keep: set[str]) -> None:
    ours = {chain for chain in chains if is_ours(chain) and chain not in keep}
    change = transaction.table(table)
    held: set[str] = set()
    for chain, rules in chains.items():
        if chain in ours:
            continue
        for rule in rules:
            target = target_of(rule)
            if target not in ours:
                continue
            if chain in _BUILT_IN and ("kubernetes" in rule or "kube-proxy" in rule):
                change.deletes.append((chain, rule))
            else:
                held.add(target)
    held = _reachable(held, chains, ours)
    change.removed += sorted(ours - held)


def _reachable(held: set[str], chains: Chains, ours: set[str]) -> set[str]:
    """What is kept keeps what it leads to."""
    waiting, found = list(held), set(held)
    while waiting:
        for rule in chains[waiting.pop()]:
            target = target_of(rule)
            if target in ours and target not in found:
                found.add(target)
                waiting.append(target)
    return found
