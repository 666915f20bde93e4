"""One service port as nftables: chains of its own, and elements of the shared maps that lead to them. Pure; see ``names``.

A packet to the cluster IP: service-ips > service- (or local- under policy Local) > endpoint-, which rewrites the destination.
From outside: service-ips or service-nodeports > external- > as above, and before that firewall-ips if sources are restricted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netproxy.backends.elements import Ref
from netproxy.backends.nftables import names
from netproxy.backends.nftables.base import Words, from_pods, merged
from netproxy.backends.options import Options
from netproxy.plan import PortRules, Target, Verdict

_LONGEST_COMMENT = 128


@dataclass(frozen=True, slots=True)
class Rendered:
    """``chains`` and ``sets`` (of a definition) belong to this port alone; ``elements`` by set or map and key are what follows
    the key, and another port may want the same one."""

    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: Mapping[str, int] = field(default_factory=dict)
    elements: Mapping[Ref, str] = field(default_factory=dict)


EMPTY = Rendered()


def affinity_set(options: Options, seconds: int) -> str:
    """The definition of the set of an endpoint's clients, who are forgotten after so many seconds."""
    return f"{{ type {Words.of(options).address} ; flags dynamic,timeout ; timeout {seconds}s ; }}"


def render(rules: PortRules, options: Options) -> Rendered:
    writer = _Writer(rules, options)
    writer.internal()
    writer.external()
    return Rendered(writer.chains, writer.sets, writer.elements)


class _Writer:
    def __init__(self, rules: PortRules, options: Options) -> None:
        self.rules, self.options = rules, options
        self.chains: dict[str, tuple[str, ...]] = {}
        self.sets: dict[str, int] = {}
        self.elements: dict[Ref, str] = {}
        base = names.port_base(rules.name)
        self.service, self.local = names.SERVICE + base, names.LOCAL + base
        self.outside, self.firewall = names.EXTERNAL + base, names.FIREWALL + base
        self.protocol = rules.protocol.lower()
        self.ip = Words.of(options).ip

    def internal(self) -> None:
        """The cluster IP, and the chains that spread over endpoints."""
        rules = self.rules
        self.elements[names.CLUSTER_IPS, rules.cluster_ip] = ""
        entered = ""
        if rules.internal is Verdict.FORWARD:
            entered = self.local if rules.internal_local else self.service
            self._lead(rules.cluster_ip, entered)
        else:
            self._refuse(rules.cluster_ip, rules.internal)
        for target in rules.all_targets:
            self._endpoint(target)
        for chain, targets in ((self.service, rules.cluster), (self.local, rules.local)):
            if targets:
                self.chains[chain] = (*self._masquerade_outsiders(chain == entered), *self._spread(targets))

    def _masquerade_outsiders(self, applies: bool) -> list[str]:
        """Who is not a pod and calls a cluster IP could not take an answer from a pod's address: answer through this node."""
        outside = "" if self.options.masquerade_all else from_pods(self.options, negated=True)
        if not applies or not (self.options.masquerade_all or outside):
            return []
        destination = f"{self.ip} daddr {self.rules.cluster_ip} {self.protocol} dport {self.rules.port}"
        return [" ".join(filter(None, (destination, outside, "jump", names.MARK_FOR_MASQUERADE)))]

    def _spread(self, targets: Sequence[Target]) -> list[str]:
        """Known clients first, to where they were; the others evenly at random."""
        bases = [names.endpoint_base(self.rules.name, target) for target in targets]
        lines = []
        if self.rules.affinity_seconds:
            lines = [f"{self.ip} saddr @{names.AFFINITY}{base} goto {names.ENDPOINT}{base}" for base in bases]
        spread = " , ".join(f"{number} : goto {names.ENDPOINT}{base}" for number, base in enumerate(bases))
        return [*lines, f"numgen random mod {len(bases)} vmap {{ {spread} }}"]

    def _endpoint(self, target: Target) -> None:
        """A pod that reaches itself needs another source address, or it would answer itself directly (hairpin)."""
        base = names.endpoint_base(self.rules.name, target)
        lines = [f"{self.ip} saddr {target.ip} jump {names.MARK_FOR_MASQUERADE}"]
        if self.rules.affinity_seconds:
            self.sets[names.AFFINITY + base] = self.rules.affinity_seconds
            lines.append(f"update @{names.AFFINITY}{base} {{ {self.ip} saddr }}")
        lines.append(f"meta l4proto {self.protocol} dnat to {target}")
        self.chains[names.ENDPOINT + base] = tuple(lines)

    def external(self) -> None:
        """External, balancer and node port addresses."""
        rules = self.rules
        if not rules.externally_accessible:
            return
        reachable, refused = bool(rules.all_targets), rules.external is not Verdict.FORWARD
        if reachable:
            self.chains[self.outside] = self._from_outside()
        if rules.source_ranges and rules.load_balancer_ips:
            self.chains[self.firewall] = (f"{self.ip} saddr != {{ {' , '.join(self._sources())} }} drop",)
            for address in rules.load_balancer_ips:
                self.elements[names.FIREWALL_IPS, self._key(address)] = f"{self._comment} : goto {self.firewall}"
        for address in (*rules.external_ips, *rules.load_balancer_ips):
            if reachable:
                self._lead(address, self.outside)
            if refused:
                self._refuse(address, rules.external)
        if rules.node_port:
            key = f"{self.protocol} . {rules.node_port}"
            if reachable:
                self.elements[names.SERVICE_NODE_PORTS, key] = f": goto {self.outside}"
            if refused:
                self.elements[names.NO_ENDPOINT_NODE_PORTS, key] = f"{self._comment} : {_refusal(rules.external)}"

    def _sources(self) -> list[str]:
        """A balancer's address may be local to the node: then the node's own requests carry it as their source."""
        own = self.rules.load_balancer_ips if self.rules.node_in_source_ranges else ()
        return merged([*self.rules.source_ranges, *own])

    def _from_outside(self) -> tuple[str, ...]:
        """Policy Cluster loses the source address; policy Local keeps it, and spares pods and this node the detour."""
        rules = self.rules
        if not rules.external_local:
            return (f"jump {names.MARK_FOR_MASQUERADE}", f"goto {self.service}") if rules.cluster else ()
        lines = []
        if rules.cluster:
            pods = from_pods(self.options)
            if pods:
                lines.append(f'{pods} goto {self.service} comment "short-circuit pod traffic"')
            own = "fib saddr type local"
            lines.append(f'{own} jump {names.MARK_FOR_MASQUERADE} comment "masquerade local traffic"')
            lines.append(f'{own} goto {self.service} comment "short-circuit local traffic"')
        if rules.local:
            lines.append(f"goto {self.local}")
        return tuple(lines)

    def _lead(self, address: str, chain: str) -> None:
        self.elements[names.SERVICE_IPS, self._key(address)] = f": goto {chain}"

    def _refuse(self, address: str, verdict: Verdict) -> None:
        self.elements[names.NO_ENDPOINT_SERVICES, self._key(address)] = f"{self._comment} : {_refusal(verdict)}"

    def _key(self, address: str) -> str:
        return f"{address} . {self.protocol} . {self.rules.port}"

    @property
    def _comment(self) -> str:
        """nft refuses longer ones than 128 characters, and names may have 63 each."""
        return f'comment "{str(self.rules.name)[:_LONGEST_COMMENT]}"'


def _refusal(verdict: Verdict) -> str:
    return f"goto {names.REJECT}" if verdict is Verdict.REJECT else "drop"
