"""Taking every rule of the proxy off this machine: ``pybernetes down`` and ``proxy --cleanup`` call :func:`cleanup`."""

from component import logs
from component.errors import OperatorError
from component.process import RealRunner, Runner
from netproxy.backends.iptables import names
from netproxy.backends.iptables.removal import removal
from netproxy.backends.ipvs.names import set_names
from netproxy.kernel import ipset, legacy, nft
from netproxy.kernel.addresses import DEVICE, AddressError, device_exists, remove_device
from netproxy.kernel.iptables import IPTables, IPTablesError, Mode, RealIPTables, available
from netproxy.kernel.ipvs import IPVSError, RealIPVS
from netproxy.trackers.services import Family

_log = logs.get(__name__)
_FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


async def cleanup(runner: Runner | None = None) -> None:
    """Remove our rules, chains and tables of every mode and family. Safe to repeat; without iptables and nft there is nothing
    to do.

    :raises OperatorError: when some of ours could not be removed; the rest is removed all the same.
    """
    runner = runner or RealRunner()
    failed = [*await _clean_iptables(runner), *await _clean_ipvs(runner), *await _clean_nftables(runner)]
    if failed:
        raise OperatorError("cannot remove the proxy's rules: " + "; ".join(failed))


async def remove_other_modes(mode: str, runner: Runner) -> None:
    """What an earlier run in another mode left: two of them would translate each other's packets. A failure is logged."""
    if mode == "nftables":
        failures = [*await _clean_iptables(runner), *await _clean_ipvs(runner)]
    elif mode == "ipvs":
        # both use KUBE-SERVICES: a run in the same mode keeps what it finds there, as connections depend on it
        failures = [*await _clean_iptables(runner, names.CANARY), *await _clean_nftables(runner)]
    else:
        failures = [*await _clean_iptables(runner, names.OF_IPVS[0]), *await _clean_ipvs(runner), *await _clean_nftables(runner)]
    for failure in failures:
        _log.error("Cannot remove the rules of another mode", err=failure)


async def _clean_ipvs(runner: Runner) -> list[str]:
    """Virtual servers, their device and sets, after the rules that use these. What failed, empty after a success."""
    failed: list[str] = []
    if device_exists():
        for remove in (RealIPVS().flush, remove_device):
            try:
                await remove()
            except (IPVSError, AddressError) as error:
                failed.append(str(error))
        _log.info("Removed the proxy's virtual servers", device=DEVICE)
    if ipset.available():
        try:
            await ipset.RealIPSets(runner).destroy(set_names())
        except ipset.IPSetError as error:
            # nothing of ours can be in a kernel that has no sets
            (failed.append if "destroy" in str(error) or "restore" in str(error) else _log.info)(str(error))
    return failed


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


async def _clean_iptables(runner: Runner, if_there: str = "") -> list[str]:
    """From both kinds of iptables, of each only if it has the chain ``if_there``. What failed, empty after a success."""
    failed: list[str] = []
    for family in _FAMILIES:
        for mode in _modes(family):
            try:
                if await _clean(RealIPTables(runner, family, mode), if_there):
                    _log.info("Removed the proxy's rules", family=family, iptables=mode or "default")
            except IPTablesError as error:
                failed.append(str(error))
        if legacy.loaded(family):
            failed += await _clean_legacy(runner, family, if_there)
    return failed


def _modes(family: Family) -> list[Mode]:
    """The kinds other than legacy: its tables exist or not, whatever commands are installed."""
    if available(family, "nft"):
        return ["nft"]
    return [""] if available(family) and not available(family, "legacy") else []


async def _clean_legacy(runner: Runner, family: Family, if_there: str) -> list[str]:
    """By libiptc, which needs no command; else by the command. What failed, empty after a success."""
    try:
        if await _clean(legacy.LegacyTables(family), if_there):
            _log.info("Removed the proxy's rules", family=family, iptables="legacy")
        return []
    except IPTablesError as error:
        if not available(family, "legacy"):
            return [str(error)]
    try:
        await _clean(RealIPTables(runner, family, "legacy"), if_there)
        return []
    except IPTablesError as error:
        return [str(error)]


async def _clean(tables: IPTables, if_there: str) -> bool:
    """A look, then one transaction; whether there was anything of ours."""
    held = await tables.save()
    if if_there and not any(if_there in chains for chains in held.values()):
        return False
    transaction = removal(held)
    await tables.restore(transaction)
    return bool(transaction)
