"""iptables as a transaction: collect what changes per table, then one ``iptables-restore --noflush``; real and fake.

Called by ``backends.iptables`` and ``cleanup``. Rules are text as ``iptables-save`` prints them after ``-A CHAIN``.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from component import logs
from component.errors import OperatorError
from component.process import Completed, ProcessError, Runner

_log = logs.get(__name__)

Tables = Mapping[str, Mapping[str, tuple[str, ...]]]
Chains = dict[str, tuple[str, ...]]
Mode = Literal["nft", "legacy", ""]

TABLES = ("mangle", "nat", "filter")
# Seconds to wait for the xtables lock, and microseconds between two tries; nft ignores them, it has no lock.
_LOCK = ("-w", "5", "-W", "100000")
STEP = 3000
_MAX_SAVED = 256 << 20


class IPTablesError(OperatorError):
    """A transaction or a look was refused; the text says by which tool and why."""


@dataclass(slots=True)
class TableChange:
    """Changes to one table. ``chains`` are created or emptied, and filled; ``deletes`` and ``inserts`` (each at the head)
    change chains that are kept; ``removed`` chains are emptied and then deleted, after every reference is gone."""

    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deletes: list[tuple[str, str]] = field(default_factory=list)
    inserts: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.chains or self.deletes or self.inserts or self.removed)


class Transaction:
    """What one call of ``restore`` changes; tables that stay empty are left out."""

    def __init__(self) -> None:
        self.tables: dict[str, TableChange] = {}

    def table(self, name: str) -> TableChange:
        return self.tables.setdefault(name, TableChange())

    def __bool__(self) -> bool:
        return any(self.tables.values())

    def parts(self, limit: int) -> list["Transaction"]:
        """This transaction as several with at most about ``limit`` chains each, in order: chains may only lead to chains that
        come before them. Everything but chains is in the last part."""
        parts: list[Transaction] = []
        last = Transaction()
        for name, change in self.tables.items():
            chains = list(change.chains.items())
            cut = max(len(chains) - limit, 0)
            for start in range(0, cut, limit):
                part = Transaction()
                part.table(name).chains.update(chains[start : min(start + limit, cut)])
                parts.append(part)
            last.tables[name] = TableChange(dict(chains[cut:]), change.deletes, change.inserts, change.removed)
        return [*parts, last]

    def render(self) -> bytes:
        """The text for ``iptables-restore --noflush``."""
        lines: list[str] = []
        for name, change in self.tables.items():
            if not change:
                continue
            lines.append(f"*{name}")
            lines += [f":{chain} - [0:0]" for chain in (*change.chains, *change.removed)]
            lines += [f"-D {chain} {rule}" for chain, rule in change.deletes]
            lines += [f"-I {chain} {rule}" for chain, rule in change.inserts]
            for chain, rules in change.chains.items():
                prefix = f"-A {chain} "
                lines += [prefix + rule for rule in rules]
            lines += [f"-X {chain}" for chain in change.removed]
            lines.append("COMMIT")
        return ("\n".join(lines) + "\n").encode()


class IPTables(Protocol):
    """One address family's tables."""

    async def restore(self, transaction: Transaction) -> None:
        """Apply in order, each table atomically; what is not named stays as it is. A table with thousands of changed chains may
        be changed in steps, chains in the order given: put chains behind those they lead to.

        :raises IPTablesError: when refused; what came before the refused table or step may have changed.
        """
        ...

    async def save(self) -> dict[str, Chains]:
        """Every table in use with its chains and their rules: one look, whose cost does not depend on how much is wanted."""
        ...

    async def has_chain(self, table: str, chain: str) -> bool:
        """Whether the chain exists: one cheap look, for noticing that somebody flushed the tables."""
        ...


def parse_save(text: str) -> dict[str, Chains]:
    """Tables by name from ``iptables-save`` output."""
    tables: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("*"):
            current = tables.setdefault(line[1:].strip(), {})
        elif line.startswith(":"):
            current.setdefault(line[1:].split(" ", 1)[0], [])
        elif line.startswith("-A "):
            chain, _, rule = line[3:].partition(" ")
            current.setdefault(chain, []).append(rule)
    return {name: {chain: tuple(rules) for chain, rules in chains.items()} for name, chains in tables.items()}


def target_of(rule: str) -> str:
    """Where a rule jumps (``-j`` or ``-g``); empty for a rule that only counts."""
    _, jump, rest = rule.rpartition(" -j ") if " -j " in rule else rule.rpartition("-j ")
    if not jump:
        _, jump, rest = rule.rpartition("-g ")
    return rest.split(" ", 1)[0] if jump else ""


def program(family: Literal["IPv4", "IPv6"], mode: Mode, suffix: str = "") -> str:
    """``iptables-restore``, ``ip6tables-nft-save``, ...; the distribution's default for mode ``""``."""
    base = "ip6tables" if family == "IPv6" else "iptables"
    return "-".join(part for part in (base, mode, suffix) if part)


def available(family: Literal["IPv4", "IPv6"] = "IPv4", mode: Mode = "") -> bool:
    """Whether the tools are installed."""
    return shutil.which(program(family, mode, "restore")) is not None


async def detect(runner: Runner, family: Literal["IPv4", "IPv6"] = "IPv4") -> Mode:
    """Which of the two iptables this host uses, as upstream decides: where the kubelet left its hint, else where there are
    more rules, else the distribution's default. Using the other one would make rules that shadow each other."""
    if not (available(family, "nft") and available(family, "legacy")):
        return ""
    modes: tuple[Mode, ...] = ("nft", "legacy")
    found = {mode: await _saved_or_nothing(runner, family, mode) for mode in modes}
    for mode, tables in found.items():
        chains = tables.get("mangle", {})
        if "KUBE-IPTABLES-HINT" in chains or "KUBE-KUBELET-CANARY" in chains:
            return mode
    nft, legacy = _count(found["nft"]), _count(found["legacy"])
    return "" if nft == legacy else "legacy" if legacy > nft else "nft"


async def _saved_or_nothing(runner: Runner, family: Literal["IPv4", "IPv6"], mode: Mode) -> Tables:
    """What this iptables holds. One that cannot be read (a kernel without its tables) is one that this host does not use."""
    try:
        return await RealIPTables(runner, family, mode).save()
    except IPTablesError as error:
        _log.warning("Cannot read the rules of one iptables, taking it for unused", mode=mode, err=str(error))
        return {}


def _count(tables: Tables) -> int:
    return sum(len(rules) for chains in tables.values() for rules in chains.values())


class RealIPTables:
    """The host's iptables, or that of the network namespace in which this process runs.

    ``step`` bounds the chains of one call, 0 for no bound, negative for what suits the mode. 15,000 chains at once take
    iptables-nft 6 seconds, in steps of 3,000 less than one; iptables-legacy writes the whole table each time and wants a
    single call.
    """

    def __init__(self, runner: Runner, family: Literal["IPv4", "IPv6"] = "IPv4", mode: Mode = "", step: int = -1) -> None:
        self._runner = runner
        self._family: Literal["IPv4", "IPv6"] = family
        self.mode: Mode = mode
        self._step = (0 if mode == "legacy" else STEP) if step < 0 else step

    async def restore(self, transaction: Transaction) -> None:
        if not transaction:
            return
        argv = [program(self._family, self.mode, "restore"), *_LOCK, "--noflush"]
        for part in transaction.parts(self._step) if self._step else [transaction]:
            await self._run(argv, part.render())

    async def save(self) -> dict[str, Chains]:
        # naming a table in the command would load its module, and so create it
        completed = await self._run([program(self._family, self.mode, "save")])
        return parse_save(completed.stdout.decode(errors="replace"))

    async def has_chain(self, table: str, chain: str) -> bool:
        argv = [program(self._family, self.mode), "-w", "5", "-t", table, "-S", chain, "1"]
        completed = await self._runner.run(argv, check=False, timeout=30)
        if completed.truncated or completed.returncode not in (0, 1):
            raise IPTablesError(f"{argv[0]} -S {chain}: {completed.stderr.decode(errors='replace').strip()}")
        return completed.returncode == 0

    async def _run(self, argv: list[str], stdin: bytes = b"") -> Completed:
        try:
            completed = await self._runner.run(argv, stdin=stdin, timeout=120, max_output=_MAX_SAVED)
        except ProcessError as error:
            raise IPTablesError(_explained(str(error), stdin)) from error
        if completed.truncated:
            raise IPTablesError(f"{argv[0]}: the output is too large to be read")
        return completed


def _explained(message: str, stdin: bytes) -> str:
    """The tool names a line by number: add that line."""
    import re

    match = re.search(r"line:? (\d+)", message)
    lines = stdin.decode(errors="replace").splitlines()
    if match and 0 < int(match[1]) <= len(lines):
        return f"{message} ({lines[int(match[1]) - 1]!r})"
    return message
