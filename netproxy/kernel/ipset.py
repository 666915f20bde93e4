"""Sets of addresses and ports that rules of iptables match, by ``ipset``. The fake is in ``fake_ipvs``.

Called by ``backends.ipvs``, ``families`` and ``cleanup``.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from component.process import ProcessError, Runner

_MAX_SAVED: Final = 256 << 20
_SECONDS: Final = 120.0


class IPSetError(Exception):
    """A look or a change was refused; the text says why."""


@dataclass(frozen=True, slots=True)
class SetChange:
    """Sets to be made unless they are there (name to type), then entries to take away and to add by set."""

    created: Mapping[str, str] = field(default_factory=dict)
    deleted: Mapping[str, Iterable[str]] = field(default_factory=dict)
    added: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def render(self, family: Literal["IPv4", "IPv6"]) -> bytes:
        """The text for ``ipset restore``, with the sizes of upstream's sets: others would be other sets to the kernel."""
        word = "inet6" if family == "IPv6" else "inet"
        lines = []
        for name, kind in self.created.items():
            size = "range 0-65535" if kind == "bitmap:port" else f"family {word} hashsize 1024 maxelem 65536"
            lines.append(f"create {name} {kind} {size}")
        lines += [f"del {name} {entry}" for name, entries in self.deleted.items() for entry in entries]
        lines += [f"add {name} {entry}" for name, entries in self.added.items() for entry in entries]
        return "".join(f"{line}\n" for line in lines).encode()


class IPSets(Protocol):
    """The machine's sets. Names tell the families apart."""

    async def entries(self) -> Mapping[str, frozenset[str]]:
        """All sets with their entries. :raises IPSetError:"""
        ...

    async def restore(self, change: SetChange) -> None:
        """An entry that is there already, or gone already, is no failure.

        :raises IPSetError: when a line is refused; those before it have been done.
        """
        ...

    async def destroy(self, names: Iterable[str]) -> None:
        """Those that are there. :raises IPSetError: when one is in use."""
        ...


def available() -> bool:
    return shutil.which("ipset") is not None


async def version(runner: Runner) -> tuple[int, ...]:
    """Of the command. :raises IPSetError: when it does not tell."""
    try:
        text = (await runner.run(["ipset", "--version"], timeout=30)).stdout.decode(errors="replace")
    except ProcessError as error:
        raise IPSetError(str(error)) from error
    found = re.search(r"v(\d+(?:\.\d+)+)", text)
    if not found:
        raise IPSetError(f"ipset --version: no version in {text.strip()!r}")
    return tuple(int(part) for part in found[1].split("."))


class RealIPSets:
    """The sets of the network namespace in which this process runs."""

    def __init__(self, runner: Runner, family: Literal["IPv4", "IPv6"] = "IPv4") -> None:
        self._runner = runner
        self._family: Literal["IPv4", "IPv6"] = family

    async def entries(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for line in (await self._run(["ipset", "save"])).splitlines():
            verb, _, rest = line.partition(" ")
            name, _, entry = rest.partition(" ")
            if verb == "create":
                found[name] = set()
            elif verb == "add":
                found[name].add(entry.split(" ", 1)[0])
        return {name: frozenset(held) for name, held in found.items()}

    async def restore(self, change: SetChange) -> None:
        text = change.render(self._family)
        if text:
            await self._run(["ipset", "-exist", "restore"], text)

    async def destroy(self, names: Iterable[str]) -> None:
        held = (await self._run(["ipset", "list", "-name"])).split()
        gone = [name for name in names if name in held]
        if gone:
            await self._run(["ipset", "restore"], "".join(f"destroy {name}\n" for name in gone).encode())

    async def _run(self, argv: list[str], stdin: bytes = b"") -> str:
        try:
            completed = await self._runner.run(argv, stdin=stdin, timeout=_SECONDS, max_output=_MAX_SAVED)
        except ProcessError as error:
            raise IPSetError(str(error)) from error
        if completed.truncated:
            raise IPSetError(f"{argv[0]}: the output is too large to be read")
        return completed.stdout.decode(errors="replace")
