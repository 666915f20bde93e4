"""Taking every rule of the proxy off this machine: ``pybernetes down`` and ``proxy --cleanup`` call :func:`cleanup`."""

from component import logs
from component.errors import OperatorError
from component.process import RealRunner, Runner
from netproxy.backends.iptables.removal import removal
from netproxy.kernel import legacy, nft
from netproxy.kernel.iptables import IPTables, IPTablesError, Mode, RealIPTables, available
from netproxy.trackers.services import Family

_log = logs.get(__name__)
_FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


async def cleanup(runner: Runner | None = None) -> None:
    """Remove our rules, chains and tables of every mode and family. Safe to repeat; without iptables and nft there is nothing
    to do.

    :raises OperatorError: when some of ours could not be removed; the rest is removed all the same.
    """
    runner = runner or RealRunner()
    failed = [*await _clean_iptables(runner), *await _clean_nftables(runner)]
    if failed:
        raise OperatorError("cannot remove the proxy's rules: " + "; ".join(failed))


async def remove_other_modes(mode: str, runner: Runner) -> None:
    """What an earlier run in another mode left: two of them would translate each other's packets. A failure is logged."""
    for failure in await (_clean_iptables(runner) if mode == "nftables" else _clean_nftables(runner)):
        _log.error("Cannot remove the rules of another mode", err=failure)


async def _clean_nftables(runner: Runner) -> list[str]:
    """What failed, empty after a success."""
    failed: list[str] = []
    if not nft.available():
        return failed
    for family in _FAMILIES:
        table = nft.RealNFT(runner, family)
        try:
            if not await table.exists():
                continue
        except nft.NFTError as error:
            _log.info("Cannot read nftables, taking it for unused", family=family, err=error)
            continue
        try:
            await table.run(nft.removal())
            _log.info("Removed the proxy's rules", family=family, table=nft.TABLE)
        except nft.NFTError as error:
            failed.append(str(error))
    return failed


async def _clean_iptables(runner: Runner) -> list[str]:
    """From both kinds of iptables. What failed, empty after a success."""
    failed: list[str] = []
    for family in _FAMILIES:
        for mode in _modes(family):
            try:
                if await _clean(RealIPTables(runner, family, mode)):
                    _log.info("Removed the proxy's rules", family=family, iptables=mode or "default")
            except IPTablesError as error:
                failed.append(str(error))
        if legacy.loaded(family):
            failed += await _clean_legacy(runner, family)
    return failed


def _modes(family: Family) -> list[Mode]:
    """The kinds other than legacy: its tables exist or not, whatever commands are installed."""
    if available(family, "nft"):
        return ["nft"]
    return [""] if available(family) and not available(family, "legacy") else []


async def _clean_legacy(runner: Runner, family: Family) -> list[str]:
    """By libiptc, which needs no command; else by the command. What failed, empty after a success."""
    try:
        if await _clean(legacy.LegacyTables(family)):
            _log.info("Removed the proxy's rules", family=family, iptables="legacy")
        return []
    except IPTablesError as error:
        if not available(family, "legacy"):
            return [str(error)]
    try:
        await _clean(RealIPTables(runner, family, "legacy"))
        return []
    except IPTablesError as error:
        return [str(error)]


async def _clean(tables: IPTables) -> bool:
    """A look, then one transaction; whether there was anything of ours."""
    transaction = removal(await tables.save())
    await tables.restore(transaction)
    return bool(transaction)
