"""Finding the service ports whose rules the kernel refuses, so that one of them does not keep all others from being served.

A Service may need what this kernel lacks (SCTP, ``xt_recent``). Called by ``backend`` when writing everything has failed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from netproxy.backends.iptables import names
from netproxy.backends.iptables.base import fixed
from netproxy.backends.iptables.render import Rendered
from netproxy.backends.options import Options
from netproxy.kernel.iptables import IPTables, IPTablesError, Transaction
from netproxy.trackers.services import PortName

_MAX_REFUSED: Final = 20


async def refused(tables: IPTables, options: Options, rendered: Mapping[PortName, Rendered]) -> list[PortName]:
    """The ports that cannot be written, found by halving. Empty when the trouble is not with single ports: nothing can be
    written at all, everything can by now, or more than twenty ports are refused."""
    if not await _accepted(tables, options, {}):
        return []
    found: list[PortName] = []
    waiting: list[Sequence[PortName]] = [list(rendered)]
    while waiting:
        part = waiting.pop()
        if await _accepted(tables, options, {name: rendered[name] for name in part}):
            continue
        if len(part) > 1:
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        found += part
        if len(found) > _MAX_REFUSED:
            return []
    return found


async def _accepted(tables: IPTables, options: Options, part: Mapping[PortName, Rendered]) -> bool:
    """Write the ports' own chains, which is harmless as they are what is wanted, and their shared lines into a chain to which
    nothing leads."""
    transaction = Transaction()
    nat = transaction.table("nat").chains
    nat[names.MARK_MASQ] = fixed(options)["nat", names.MARK_MASQ]
    trial: dict[str, list[str]] = {"nat": [], "filter": []}
    for each in part.values():
        nat.update(each.chains)
        for (table, _), lines in each.shared.items():
            trial[table] += lines
    for table, collected in trial.items():
        transaction.table(table).chains[names.TRIAL] = tuple(collected)
    try:
        await tables.restore(transaction)
    except IPTablesError:
        return False
    return True
