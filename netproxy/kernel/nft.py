"""nftables as a transaction: collect commands on the table ``kube-proxy``, then one ``nft -f -``; real and fake.

Called by ``backends.nftables`` and ``cleanup``. Words are nft's own. The whole transaction happens or nothing does.
"""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import orjson

from component.errors import OperatorError
from component.process import ProcessError, Runner

TABLE: Final = "kube-proxy"
Verb = Literal["add", "flush", "delete"]
Kind = Literal["table", "chain", "rule", "set", "map", "element"]
_MAX_LISTED: Final = 64 << 20
_SECONDS: Final = 120.0


class NFTError(OperatorError):
    """A transaction or a look was refused; the text says why."""


@dataclass(frozen=True, slots=True)
class Command:
    """``body`` is what follows the object's name: a chain's or set's definition, or a rule. ``elements`` map keys to what
    follows them, which is empty for a set and ``: verdict`` for a map, a comment first if there is one."""

    verb: Verb
    kind: Kind
    name: str = ""
    body: str = ""
    elements: tuple[tuple[str, str], ...] = ()

    def render(self, family: str) -> str:
        body = "{ " + ", ".join(f"{key} {rest}".rstrip() for key, rest in self.elements) + " }" if self.elements else self.body
        return " ".join(filter(None, (self.verb, self.kind, family, TABLE, self.name, body)))


@dataclass(slots=True)
class Transaction:
    """Commands in the order in which the kernel sees them."""

    commands: list[Command] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.commands)

    def add(self, kind: Kind, name: str, body: str = "") -> None:
        """Create what may exist already; refused when it exists with another definition."""
        self.commands.append(Command("add", kind, name, body))

    def flush(self, kind: Kind, name: str) -> None:
        """Empty a chain, set or map."""
        self.commands.append(Command("flush", kind, name))

    def delete(self, kind: Kind, name: str = "") -> None:
        self.commands.append(Command("delete", kind, name))

    def rules(self, chain: str, rules: Iterable[str]) -> None:
        self.commands += [Command("add", "rule", chain, rule) for rule in rules]

    def add_elements(self, container: str, elements: Mapping[str, str]) -> None:
        if elements:
            self.commands.append(Command("add", "element", container, elements=tuple(elements.items())))

    def delete_elements(self, container: str, keys: Iterable[str]) -> None:
        gone = tuple((key, "") for key in keys)
        if gone:
            self.commands.append(Command("delete", "element", container, elements=gone))

    def render(self, family: Literal["IPv4", "IPv6"]) -> bytes:
        """The text for ``nft -f -``."""
        word = "ip6" if family == "IPv6" else "ip"
        return ("\n".join(command.render(word) for command in self.commands) + "\n").encode()


def removal() -> Transaction:
    """The whole table goes, if it is there."""
    made = Transaction()
    made.add("table", "")
    made.delete("table")
    return made


@dataclass(frozen=True, slots=True)
class Existing:
    """What the table holds: chains, and sets (no maps) with the seconds after which their elements go, 0 for never."""

    chains: frozenset[str] = frozenset()
    sets: Mapping[str, int] = field(default_factory=dict)


class NFT(Protocol):
    """The table ``kube-proxy`` of one address family."""

    async def run(self, transaction: Transaction, *, check: bool = False) -> None:
        """Apply all of it, or with ``check`` only ask whether it could be. :raises NFTError: then nothing was changed."""
        ...

    async def look(self) -> Existing:
        """Chains and sets, without rules and elements; nothing when there is no table.

        :raises NFTError: when it cannot be read.
        """
        ...

    async def rule_count(self, chain: str) -> int:
        """How many rules a chain has; 0 without the chain or the table. :raises NFTError: when it cannot be read."""
        ...


def available() -> bool:
    return shutil.which("nft") is not None


async def version(runner: Runner) -> tuple[int, ...]:
    """Of the command. :raises NFTError: when it does not tell."""
    try:
        text = (await runner.run(["nft", "--version"], timeout=30)).stdout.decode(errors="replace")
    except ProcessError as error:
        raise NFTError(str(error)) from error
    found = re.search(r"v(\d+(?:\.\d+)+)", text)
    if not found:
        raise NFTError(f"nft --version: no version in {text.strip()!r}")
    return tuple(int(part) for part in found[1].split("."))


class RealNFT:
    """The host's nftables, or that of the network namespace in which this process runs."""

    def __init__(self, runner: Runner, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._runner = runner
        self._family: Literal["IPv4", "IPv6"] = family
        self._word = "ip6" if family == "IPv6" else "ip"

    async def run(self, transaction: Transaction, *, check: bool = False) -> None:
        if not transaction:
            return
        stdin = transaction.render(self._family)
        try:
            await self._runner.run(["nft", *(["-c"] if check else []), "-f", "-"], stdin=stdin, timeout=_SECONDS)
        except ProcessError as error:
            raise NFTError(str(error)) from error

    async def exists(self) -> bool:
        """Whether there is the table. :raises NFTError: when this kernel has no nftables, too."""
        return any(each.get("table", {}).get("name") == TABLE for each in await self._list("tables", self._word))

    async def look(self) -> Existing:
        chains = await self._list("chains", self._word)
        if not any(each.get("chain", {}).get("table") == TABLE for each in chains):
            return Existing()
        sets = [each["set"] for each in await self._list("sets", self._word) if each.get("set", {}).get("table") == TABLE]
        return Existing(
            frozenset(each["chain"]["name"] for each in chains if each.get("chain", {}).get("table") == TABLE),
            {each["name"]: int(each.get("timeout") or 0) for each in sets},
        )

    async def rule_count(self, chain: str) -> int:
        listed = await self._list("chain", self._word, TABLE, chain, missing_ok=True)
        return sum("rule" in each for each in listed)

    async def _list(self, *what: str, missing_ok: bool = False) -> Sequence[dict[str, Any]]:
        argv = ["nft", "-j", "-t", "list", *what]
        try:
            completed = await self._runner.run(argv, check=False, timeout=_SECONDS, max_output=_MAX_LISTED)
        except ProcessError as error:
            raise NFTError(str(error)) from error
        if completed.returncode != 0 and missing_ok and b"No such file or directory" in completed.stderr:
            return ()
        if completed.returncode != 0 or completed.truncated:
            raise NFTError(f"{' '.join(argv)}: {completed.stderr.decode(errors='replace').strip() or 'too much output'}")
        found: Sequence[dict[str, Any]] = orjson.loads(completed.stdout)["nftables"]
        return found
