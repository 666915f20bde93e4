"""iptables-legacy's tables by libiptc (the package python-iptables): a look, and taking away. Called by ``cleanup``.

For the legacy tables only, which are all that libiptc knows, and never for writing: 1,000 rules take it half a second where
``iptables-restore`` takes 15 ms. It needs no ``iptables-legacy`` command, so rules that an earlier default of the
distribution left behind can still be found. Importing it costs 19 MB, so it is imported here and when needed.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from netproxy.kernel.iptables import Chains, IPTablesError, TableChange, Transaction

_LOCK_FILE = "/run/xtables.lock"
_LOCK_SECONDS = 5.0


def loaded(family: Literal["IPv4", "IPv6"] = "IPv4", proc: Path = Path("/proc/net")) -> list[str]:
    """The legacy tables that exist in this network namespace. Looking does not load any."""
    try:
        return (proc / ("ip6_tables_names" if family == "IPv6" else "ip_tables_names")).read_text().split()
    except OSError:
        return []


class LegacyTables:
    """Fulfils ``IPTables`` for a look and for removals. Rules are shown with comment and target alone, which is what tells
    ours from others'."""

    def __init__(self, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._family = family

    async def save(self) -> dict[str, Chains]:
        return await asyncio.to_thread(self._save)

    async def restore(self, transaction: Transaction) -> None:
        """Deletions and removals. :raises IPTablesError: for anything else, before anything is changed."""
        for change in transaction.tables.values():
            if change.chains or change.inserts:
                raise IPTablesError("libiptc is used for removals only")
        if transaction:
            await asyncio.to_thread(self._remove, transaction)

    async def has_chain(self, table: str, chain: str) -> bool:
        return chain in (await self.save()).get(table, {})

    def _save(self) -> dict[str, Chains]:
        found: dict[str, Chains] = {}
        for name in loaded(self._family):
            with self._table(name) as table:
                found[name] = {chain.name: tuple(_shown(rule) for rule in chain.rules) for chain in table.chains}
        return found

    def _remove(self, transaction: Transaction) -> None:
        with _lock():
            for name, change in transaction.tables.items():
                if change:
                    with self._table(name) as table:
                        _apply(table, change)

    @contextlib.contextmanager
    def _table(self, name: str) -> Iterator[Any]:
        """A fresh copy of the table, closed at the end: the package keeps one object per name for ever."""
        try:
            import iptc
        except Exception as error:
            raise IPTablesError(f"python-iptables cannot be used: {error}") from error
        try:
            table = (iptc.Table6 if self._family == "IPv6" else iptc.Table)(name)
            table.refresh()
            table.autocommit = False
            try:
                yield table
            finally:
                table.autocommit = True
                table.close()
        except (iptc.IPTCError, iptc.XTablesError) as error:
            raise IPTablesError(f"table {name} of iptables-legacy: {error}") from error


def _shown(rule: Any) -> str:
    comment = next((match.parameters.get("comment", "") for match in rule.matches if match.name == "comment"), "")
    text = f'-m comment --comment "{comment}" ' if comment else ""
    return f"{text}-j {rule.target.name}" if rule.target else text.strip()


def _apply(table: Any, change: TableChange) -> None:
    chains = {chain.name: chain for chain in table.chains}
    for name, text in change.deletes:
        rule = next((each for each in chains[name].rules if _shown(each) == text), None) if name in chains else None
        if rule is None:
            raise IPTablesError(f"-D {name} {text}: no such rule")
        chains[name].delete_rule(rule)
    for name in change.removed:
        chains[name].flush()
    for name in change.removed:
        table.delete_chain(name)
    table.commit()


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """The lock that every iptables-legacy takes; libiptc itself does not, and would undo what others write meanwhile."""
    path = os.environ.get("XTABLES_LOCKFILE", _LOCK_FILE)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise IPTablesError(f"cannot open {path}: {error.strerror}") from error
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise IPTablesError(f"another program holds {path} for more than {_LOCK_SECONDS:g} s") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
