"""One service port's rules as iptables text: its own chains, and its lines in the shared chains. Pure; see ``names``.

A packet to the cluster IP: KUBE-SERVICES > KUBE-SVC (or KUBE-SVL under policy Local) > KUBE-SEP, which rewrites the
destination. From outside: KUBE-SERVICES or KUBE-NODEPORTS > KUBE-EXT (by KUBE-FW if sources are restricted) > as above.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netproxy.backends.iptables import names
from netproxy.backends.iptables.base import ChainRef, from_pods
from netproxy.backends.options import Options
from netproxy.plan import PortRules, Target, Verdict


@dataclass(frozen=True, slots=True)
class Rendered:
    """``chains`` of the nat table that belong to this port alone, each behind those it leads to; ``shared`` lines by table
    and chain."""

    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shared: Mapping[ChainRef, tuple[str, ...]] = field(default_factory=dict)


EMPTY = Rendered()


def render(rules: PortRules, options: Options) -> Rendered:
    writer = _Writer(rules, options)
    writer.internal()
    writer.external()
    writer.health_check()
    return Rendered(writer.chains, {key: tuple(lines) for key, lines in writer.shared.items()})


class _Writer:
    def __init__(self, rules: PortRules, options: Options) -> None:
        self.rules = rules
        self.options = options
        self.from_pods = from_pods(options)
        self.chains: dict[str, tuple[str, ...]] = {}
        self.shared: dict[ChainRef, list[str]] = {}
        code = names.port_hash(rules.name)
        self.svc, self.svl, self.ext, self.fw = (prefix + code for prefix in (names.SVC, names.SVL, names.EXT, names.FW))
        self.protocol = rules.protocol.lower()
        self.match = f"-m {self.protocol} -p {self.protocol}"

    def internal(self) -> None:
        """The cluster IP, and the chains that spread over endpoints."""
        rules = self.rules
        destination = f"{self.match} -d {rules.cluster_ip} --dport {rules.port}"
        if rules.internal is Verdict.FORWARD:
            chain = self.svl if rules.internal_local else self.svc
            self._share("nat", names.SERVICES, f"{self._comment('cluster IP')} {destination} -j {chain}")
        else:
            chain = ""
            self._refuse(names.SERVICES, rules.internal, destination)
        for target in rules.all_targets:
            self.chains[names.endpoint_chain(rules.name, target)] = self._endpoint(target)
        for name, targets in ((self.svc, rules.cluster), (self.svl, rules.local)):
            if targets:
                self.chains[name] = (*self._masquerade_outsiders(destination, name == chain), *self._spread(targets))

    def _masquerade_outsiders(self, destination: str, applies: bool) -> list[str]:
        """Who is not a pod and calls a cluster IP could not take an answer from a pod's address: answer through this node."""
        if not applies or not (self.options.masquerade_all or self.from_pods):
            return []
        outside = "" if self.options.masquerade_all else f" ! {self.from_pods}"
        return [f"{self._comment('cluster IP')} {destination}{outside} -j {names.MARK_MASQ}"]

    def _spread(self, targets: Sequence[Target]) -> list[str]:
        """Known clients first, to where they were; the others evenly at random."""
        lines = []
        chains = [(target, names.endpoint_chain(self.rules.name, target)) for target in targets]
        if self.rules.affinity_seconds:
            known = f"--rcheck --seconds {self.rules.affinity_seconds} --reap"
            lines = [f"{self._to(target)} -m recent --name {chain} {known} -j {chain}" for target, chain in chains]
        for position, (target, chain) in enumerate(chains):
            left = len(chains) - position
            chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
            lines.append(f"{self._to(target)}{chance} -j {chain}")
        return lines

    def _endpoint(self, target: Target) -> tuple[str, ...]:
        """A pod that reaches itself needs another source address, or it would answer itself directly (hairpin)."""
        comment = f'-m comment --comment "{self.rules.name}"'
        chain = names.endpoint_chain(self.rules.name, target)
        remember = f" -m recent --name {chain} --set" if self.rules.affinity_seconds else ""
        return (
            f"{comment} -s {target.ip} -j {names.MARK_MASQ}",
            f"{comment}{remember} {self.match} -j DNAT --to-destination {target}",
        )

    def external(self) -> None:
        """External, balancer and node port addresses."""
        rules = self.rules
        if not rules.externally_accessible:
            return
        reachable = bool(rules.all_targets)
        if reachable:
            self.chains[self.ext] = self._outside()
        for address in rules.external_ips:
            self._expose(names.SERVICES, f"{self.match} -d {address} --dport {rules.port}", "external IP", self.ext, reachable)
        restricted = bool(rules.source_ranges)
        for address in rules.load_balancer_ips:
            destination = f"{self.match} -d {address} --dport {rules.port}"
            via = self.fw if restricted else self.ext
            self._expose(names.SERVICES, destination, "loadbalancer IP", via, reachable)
            if restricted:
                text = f'-m comment --comment "{rules.name} traffic not accepted by {self.fw}"'
                self._share("filter", names.PROXY_FIREWALL, f"{text} {destination} -j DROP")
        if restricted and reachable and rules.load_balancer_ips:
            self.chains[self.fw] = self._allowed()
        if rules.node_port:
            local = "-m addrtype --dst-type LOCAL "
            self._expose(names.NODE_PORTS, f"{self.match} --dport {rules.node_port}", "", self.ext, reachable, local)

    def _expose(self, chain: str, destination: str, what: str, via: str, reachable: bool, refuse_match: str = "") -> None:
        if reachable:
            self._share("nat", chain, f"{self._comment(what)} {destination} -j {via}")
        if self.rules.external is not Verdict.FORWARD:
            self._refuse(names.EXTERNAL_SERVICES, self.rules.external, f"{refuse_match}{destination}")

    def _outside(self) -> tuple[str, ...]:
        """Policy Cluster loses the source address; policy Local keeps it, and spares pods and this node the detour."""
        rules, text = self.rules, f"{self.rules.name} external destinations"
        if not rules.external_local:
            masquerade = f'-m comment --comment "masquerade traffic for {text}" -j {names.MARK_MASQ}'
            return (masquerade, f"-j {self.svc}") if rules.cluster else ()
        lines = []
        if rules.cluster:
            if self.from_pods:
                lines.append(f'-m comment --comment "pod traffic for {text}" {self.from_pods} -j {self.svc}')
            own = "-m addrtype --src-type LOCAL"
            lines.append(f'-m comment --comment "masquerade LOCAL traffic for {text}" {own} -j {names.MARK_MASQ}')
            lines.append(f'-m comment --comment "route LOCAL traffic for {text}" {own} -j {self.svc}')
        if rules.local:
            lines.append(f"-j {self.svl}")
        return tuple(lines)

    def _allowed(self) -> tuple[str, ...]:
        comment = self._comment("loadbalancer IP")
        sources = list(self.rules.source_ranges)
        if self.rules.node_in_source_ranges:
            # a balancer's address may be local to the node: then the node's own requests carry it as their source
            sources += list(self.rules.load_balancer_ips)
        return tuple(f"{comment} -s {source} -j {self.ext}" for source in sources)

    def health_check(self) -> None:
        port = self.rules.health_check_port
        if port:
            comment = f'-m comment --comment "{self.rules.name.service} health check node port"'
            self._share("filter", names.NODE_PORTS, f"{comment} -m tcp -p tcp --dport {port} -j ACCEPT")

    def _refuse(self, chain: str, verdict: Verdict, match: str) -> None:
        missing = "has no endpoints" if verdict is Verdict.REJECT else "has no local endpoints"
        target = "REJECT" if verdict is Verdict.REJECT else "DROP"
        self._share("filter", chain, f"{self._comment(missing)} {match} -j {target}")

    def _share(self, table: str, chain: str, line: str) -> None:
        self.shared.setdefault((table, chain), []).append(line)

    def _comment(self, what: str) -> str:
        return f'-m comment --comment "{self.rules.name} {what}"' if what else f'-m comment --comment "{self.rules.name}"'

    def _to(self, target: Target) -> str:
        return f'-m comment --comment "{self.rules.name} -> {target}"'
