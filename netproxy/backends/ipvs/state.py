"""What the ports of all services want of the kernel together, and what a change of some changes. No I/O; for ``backend``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from netproxy.backends.elements import Change, Elements, Ref, folded
from netproxy.backends.ipvs.render import EMPTY, Here, Rendered, Wanted, render
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.options import Options
from netproxy.kernel.ipvs import Real, Server
from netproxy.plan import PortRules
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import PortName

T = TypeVar("T")
Pair = tuple[T | None, T | None]
"""Before and after; None for what is not there."""


@dataclass(slots=True)
class Delta:
    """What became different."""

    servers: Mapping[Server, Pair[Wanted]]
    entries: Mapping[Ref, Pair[str]]
    bound: Mapping[str, Pair[str]]
    filters: Mapping[str, Pair[str]]


@dataclass(slots=True)
class State:
    """Rules by port and what they come to. ``retiring`` are the real servers with weight 0, by their virtual server."""

    options: Options
    settings: IPVSSettings
    node: NodeFacts = field(default_factory=lambda: NodeFacts(""))
    here: Here = field(default_factory=Here)
    ports: dict[PortName, PortRules] = field(default_factory=dict)
    rendered: dict[PortName, Rendered] = field(default_factory=dict)
    servers: Elements[Server, Wanted] = field(default_factory=Elements)
    entries: Elements[Ref, str] = field(default_factory=Elements)
    bound: Elements[str, str] = field(default_factory=Elements)
    filters: Elements[str, str] = field(default_factory=Elements)
    retiring: dict[Server, frozenset[Real]] = field(default_factory=dict)

    def change(self, ports: Mapping[PortName, PortRules | None]) -> Delta:
        """Take in new rules of some ports, None for a port that is gone."""
        servers: list[Change[Server, Wanted]] = []
        entries: list[Change[Ref, str]] = []
        bound: list[Change[str, str]] = []
        filters: list[Change[str, str]] = []
        for name, rules in ports.items():
            old = self.rendered.pop(name, EMPTY)
            new = EMPTY
            self.ports.pop(name, None)
            if rules is not None:
                new = render(rules, self.options, self.settings, self.here)
                self.ports[name], self.rendered[name] = rules, new
            servers += self.servers.change(name, old.servers, new.servers)
            entries += self.entries.change(name, old.entries, new.entries)
            bound += self.bound.change(name, dict.fromkeys(old.bound, ""), dict.fromkeys(new.bound, ""))
            filters += self.filters.change(name, dict.fromkeys(old.filters, ""), dict.fromkeys(new.filters, ""))
        return Delta(folded(servers), folded(entries), folded(bound), folded(filters))

    def out_filter(self) -> tuple[str, ...]:
        """All rules of ``KUBE-IPVS-OUT-FILTER``."""
        return tuple(sorted(rule for rule, _ in self.filters.in_force()))
