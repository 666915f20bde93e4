"""A packet tracer: walks a packet through iptables rules and tells where it may land and whether its source is rewritten.

Tests of rules ask this instead of comparing text, so they outlive another way of writing the rules. Where chance decides,
both ways are walked: the answer is a set. It knows the matches and targets the proxy uses and fails on any other.
"""

import fnmatch
import ipaddress
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Tables = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class Packet:
    """``via`` is where it enters: ``node`` for a process of the node itself, else ``wire``. ``known`` names an endpoint chain
    that remembers this client (session affinity)."""

    source: str
    destination: str
    port: int
    protocol: str = "tcp"
    via: str = "wire"
    mark: int = 0
    state: str = "NEW"
    known: str = ""
    interface: str = "eth0"


@dataclass(frozen=True, order=True)
class Landing:
    """``verdict`` is ACCEPT, REJECT or DROP; ``where`` is ``ip:port`` after translation."""

    verdict: str
    where: str = ""
    masqueraded: bool = False


class Tracer:
    def __init__(self, tables: Tables, local: Sequence[str] = ("10.0.0.1", "10.244.0.1", "127.0.0.1")) -> None:
        self.tables = tables
        self.local = set(local)

    def trace(self, packet: Packet) -> set[Landing]:
        """Everywhere the packet may end."""
        landings: set[Landing] = set()
        first = "OUTPUT" if packet.via == "node" else "PREROUTING"
        for _, translated in self._hook("nat", first, packet):
            for verdict, judged in self._filters(translated):
                if verdict != "ACCEPT":
                    landings.add(Landing(verdict))
                    continue
                for last, _ in self._hook("nat", "POSTROUTING", judged):
                    landings.add(Landing("ACCEPT", f"{judged.destination}:{judged.port}", last == "MASQUERADE"))
        return landings

    def where(self, packet: Packet) -> set[str]:
        """The destinations alone, or verdicts for what is refused."""
        return {landing.where or landing.verdict for landing in self.trace(packet)}

    def _filters(self, packet: Packet) -> Iterator[tuple[str, Packet]]:
        """The filter table's hooks on the packet's way; a verdict other than ACCEPT ends it."""
        hooks = ["OUTPUT"] if packet.via == "node" else []
        if self._is_local(packet.destination):
            hooks.append("INPUT")
        elif packet.via != "node":
            hooks.append("FORWARD")
        yield from self._through(hooks, packet)

    def _through(self, hooks: Sequence[str], packet: Packet) -> Iterator[tuple[str, Packet]]:
        if not hooks:
            yield "ACCEPT", packet
            return
        for verdict, after in self._hook("filter", hooks[0], packet):
            if verdict in ("REJECT", "DROP"):
                yield verdict, after
            else:
                yield from self._through(hooks[1:], after)

    def _hook(self, table: str, chain: str, packet: Packet) -> Iterator[tuple[str, Packet]]:
        for verdict, after in self._walk(table, chain, 0, packet):
            yield verdict or "ACCEPT", after

    def _walk(self, table: str, chain: str, position: int, packet: Packet) -> Iterator[tuple[str, Packet]]:
        """Verdicts from here on; an empty one when the chain's end is reached."""
        rules = self.tables[table].get(chain, ())
        while position < len(rules):
            rule = _Rule(rules[position])
            position += 1
            matched = rule.matches(packet, self)
            if matched is None:  # chance: once as if it did not match
                yield from self._walk(table, chain, position, packet)
            elif not matched:
                continue
            verdict, packet = rule.act(packet)
            if verdict == "RETURN":
                break
            if verdict in ("ACCEPT", "DROP", "REJECT", "DNAT", "MASQUERADE"):
                yield verdict, packet
                return
            if verdict == "MARK":
                continue
            for inner, after in self._walk(table, verdict, 0, packet):
                if inner:
                    yield inner, after
                else:
                    yield from self._walk(table, chain, position, after)
            return
        yield "", packet

    def _is_local(self, address: str) -> bool:
        return address in self.local or address.startswith("127.")


class _Rule:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words = shlex.split(text)

    def matches(self, packet: Packet, tracer: Tracer) -> bool | None:
        """None when chance decides."""
        words, negated, chance = iter(self.words), False, False
        for word in words:
            if word == "!":
                negated = True
                continue
            if word == "-j":
                break
            if word in ("--set", "--rcheck", "--reap"):
                if word == "--rcheck" and self.words[self.words.index("--name") + 1] != packet.known:
                    return False
                continue
            value = next(words)
            if word == "--probability":
                chance = True
            elif word in _TESTS:
                if _TESTS[word](packet, value, tracer) == negated:
                    return False
                negated = False
            elif word not in ("-m", "--comment", "--mode", "--name", "--seconds"):
                raise AssertionError(f"the tracer does not know {word!r} in {self.text!r}")
        return None if chance else True

    def act(self, packet: Packet) -> tuple[str, Packet]:
        at = self.words.index("-j")
        target, options = self.words[at + 1], self.words[at + 2 :]
        if target == "DNAT":
            ip, _, port = options[1].rpartition(":")
            return target, replace(packet, destination=ip, port=int(port))
        if target == "MARK":
            bits = int(options[1], 16)
            return target, replace(packet, mark=packet.mark | bits if options[0] == "--or-mark" else packet.mark ^ bits)
        return target, packet


def _in(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)


def _mark(packet: Packet, value: str) -> bool:
    wanted, _, mask = value.partition("/")
    return packet.mark & int(mask or "0xffffffff", 16) == int(wanted, 16)


_TESTS = {
    "-s": lambda packet, value, tracer: _in(packet.source, value),
    "-d": lambda packet, value, tracer: _in(packet.destination, value),
    "-i": lambda packet, value, tracer: fnmatch.fnmatchcase(packet.interface, value.replace("+", "*")),
    "-p": lambda packet, value, tracer: packet.protocol == value,
    "--dport": lambda packet, value, tracer: packet.port == int(value),
    "--dst-type": lambda packet, value, tracer: tracer._is_local(packet.destination),
    "--src-type": lambda packet, value, tracer: tracer._is_local(packet.source),
    "--ctstate": lambda packet, value, tracer: packet.state in value.split(","),
    "--mark": lambda packet, value, tracer: _mark(packet, value),
}
