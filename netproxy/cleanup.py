"""Taking every rule of the proxy off this machine: ``pybernetes down`` and ``proxy --cleanup`` call :func:`cleanup`."""

from component import logs
from component.process import RealRunner, Runner
from netproxy.backends.iptables.removal import removal
from netproxy.kernel.iptables import IPTablesError, Mode, RealIPTables, available
from netproxy.trackers.services import Family

_log = logs.get(__name__)
_FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


async def cleanup(runner: Runner | None = None) -> None:
    """Remove our rules and chains from both families and from both kinds of iptables. Safe to repeat; without iptables
    there is nothing to do.

    :raises IPTablesError: when some of ours could not be removed; the rest is removed all the same.
    """
    runner = runner or RealRunner()
    failed: list[str] = []
    for family in _FAMILIES:
        for mode in _modes(family):
            try:
                await _clean(runner, family, mode)
            except IPTablesError as error:
                failed.append(str(error))
    if failed:
        raise IPTablesError("cannot remove the proxy's rules: " + "; ".join(failed))


def _modes(family: Family) -> list[Mode]:
    named: list[Mode] = [mode for mode in ("nft", "legacy") if available(family, mode)]
    return named or ([""] if available(family) else [])


async def _clean(runner: Runner, family: Family, mode: Mode) -> None:
    tables = RealIPTables(runner, family, mode)
    transaction = removal(await tables.save())
    if transaction:
        await tables.restore(transaction)
        _log.info("Removed the proxy's rules", family=family, iptables=mode or "default")
