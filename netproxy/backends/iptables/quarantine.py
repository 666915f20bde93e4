"""Which service ports the kernel refuses, asked of it for a part of them at a time. Called by ``backend``."""

from collections.abc import Mapping, Sequence

from netproxy.backends.culprits import culprits
from netproxy.backends.iptables import names
from netproxy.backends.iptables.base import fixed
from netproxy.backends.iptables.render import Rendered
from netproxy.backends.options import Options
from netproxy.kernel.iptables import IPTables, IPTablesError, Transaction
from netproxy.trackers.services import PortName


async def refused(tables: IPTables, options: Options, rendered: Mapping[PortName, Rendered]) -> list[PortName]:
    """The ports that cannot be written."""

    async def accepted(part: Sequence[PortName]) -> bool:
        return await _accepted(tables, options, {name: rendered[name] for name in part})

    return await culprits(list(rendered), accepted)


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
