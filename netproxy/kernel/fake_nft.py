"""A strict nftables in memory: refuses what the real one refuses, so that tests without root find the same mistakes.

It does not imitate: packets, the grammar of rules, elements that expire, kernels that free references late.
"""

import re
from copy import deepcopy
from dataclasses import dataclass, field

from netproxy.kernel.nft import Command, Existing, NFTError, Transaction

_CALLED = re.compile(r"\b(?:jump|goto) ([^\s,}]+)")
_NAMED = re.compile(r"@([^\s,}]+)")
_COMMENT_TOO_LONG = re.compile(r'comment "[^"]{129}')


@dataclass(slots=True)
class _Set:
    kind: str
    body: str
    elements: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Table:
    chains: dict[str, str] = field(default_factory=dict)
    rules: dict[str, list[str]] = field(default_factory=dict)
    sets: dict[str, _Set] = field(default_factory=dict)


class FakeNFT:
    """``table`` is None before the first transaction. ``fail_next`` makes the next transaction fail, ``lacks`` every one with
    such a text in it; ``transactions`` records the texts of those that were to be applied."""

    def __init__(self) -> None:
        self.table: _Table | None = None
        self.transactions: list[bytes] = []
        self.fail_next: str | None = None
        self.lacks: str | None = None

    async def run(self, transaction: Transaction, *, check: bool = False) -> None:
        if not transaction:
            return
        text = transaction.render("IPv4")
        if not check:
            self.transactions.append(text)
        if self.fail_next is not None:
            message, self.fail_next = self.fail_next, None
            raise NFTError(message)
        if self.lacks is not None and self.lacks in text.decode():
            raise NFTError(f"{self.lacks}: Operation not supported")
        if _COMMENT_TOO_LONG.search(text.decode()):
            raise NFTError("comment too long, 128 characters maximum allowed")
        table = deepcopy(self.table)
        for command in transaction.commands:
            table = _applied(table, command)
        if table is not None:
            _check_references(table)
        if not check:
            self.table = table

    async def look(self) -> Existing:
        if self.table is None:
            return Existing()
        sets = {name: _timeout(each.body) for name, each in self.table.sets.items() if each.kind == "set"}
        return Existing(frozenset(self.table.chains), sets)

    async def rule_count(self, chain: str) -> int:
        return len(self.table.rules.get(chain, ())) if self.table else 0

    def flush_ruleset(self) -> None:
        """What a careless administrator does."""
        self.table = None

    def state(self) -> dict[str, object]:
        """Rules by chain and elements by set, in no order but that of rules."""
        assert self.table is not None
        return {**self.table.rules, **{f"@{name}": (each.body, each.elements) for name, each in self.table.sets.items()}}


def _timeout(body: str) -> int:
    found = re.search(r"timeout (\d+)s", body)
    return int(found[1]) if found else 0


def _applied(table: _Table | None, command: Command) -> _Table | None:
    if command.kind == "table":
        if command.verb == "delete":
            _need(table is not None, command)
            return None
        return table or _Table()
    if table is None:
        raise NFTError(f"{command.verb} {command.kind} {command.name}: No such file or directory")
    if command.kind == "element":
        _change_elements(table, command)
    elif command.kind in ("set", "map"):
        _change_set(table, command)
    else:
        _change_chain(table, command)
    return table


def _change_chain(table: _Table, command: Command) -> None:
    name = command.name
    if command.kind == "rule":
        _need(name in table.chains, command)
        table.rules[name].append(command.body)
    elif command.verb == "add":
        if table.chains.setdefault(name, command.body) != command.body:
            raise NFTError(f"add chain {name}: Operation not supported")
        table.rules.setdefault(name, [])
    elif command.verb == "flush":
        _need(name in table.chains, command)
        table.rules[name] = []
    else:
        _need(name in table.chains, command)
        del table.chains[name], table.rules[name]


def _change_set(table: _Table, command: Command) -> None:
    if command.verb == "add":
        held = table.sets.setdefault(command.name, _Set(command.kind, command.body))
        if (held.kind, held.body) != (command.kind, command.body):
            raise NFTError(f"add {command.kind} {command.name}: File exists")
        return
    _need(command.name in table.sets, command)
    if command.verb == "flush":
        table.sets[command.name].elements.clear()
    else:
        del table.sets[command.name]


def _change_elements(table: _Table, command: Command) -> None:
    _need(command.name in table.sets, command)
    held = table.sets[command.name].elements
    for key, rest in command.elements:
        if command.verb == "delete":
            _need(key in held, command)
            del held[key]
        elif held.setdefault(key, rest) != rest:
            raise NFTError(f"add element {command.name} {key}: File exists")


def _check_references(table: _Table) -> None:
    texts = [rule for rules in table.rules.values() for rule in rules]
    texts += [rest for each in table.sets.values() for rest in each.elements.values()]
    for text in texts:
        for chain in _CALLED.findall(text):
            if chain not in table.chains:
                raise NFTError(f"{text}: chain {chain}: No such file or directory")
        for name in _NAMED.findall(text):
            if name not in table.sets:
                raise NFTError(f"{text}: set {name}: No such file or directory")


def _need(there: bool, command: Command) -> None:
    if not there:
        raise NFTError(f"{command.verb} {command.kind} {command.name}: No such file or directory")
