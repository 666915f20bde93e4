"""Source NAT for what pods send out of the cluster: one chain for the whole pod CIDR, instead of one per pod.

The bridge plugin's own ``ipMasq`` makes a chain for every pod and runs iptables ten times for it; with thirty pods at once,
and a proxy that wants the same lock, that is a third of their start-up time. The kubelet writes this chain with the CNI
configuration and looks after it once a minute. ``CNI-`` in its name lets every tool that clears CNI's chains clear it.
Pods of other nodes see a pod's own address, as Kubernetes' network model has it; their CIDRs are told by ``routes.PodRoutes``.
"""

import ipaddress
from collections.abc import Sequence

from component.process import Runner

CHAIN = "CNI-PYBERNETES-MASQ"
_MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}
_TOOLS = {4: "iptables", 6: "ip6tables"}


def restore_input(cidrs: Sequence[str], others: Sequence[str] = ()) -> str:
    """What iptables-restore --noflush gets to make the chain hold just these rules: ``cidrs`` are this node's (at least one),
    ``others`` those of other nodes, all of one family. Pure."""
    family = ipaddress.ip_network(cidrs[0]).version
    said = '-m comment --comment "pods reach the world as their node"'
    rules = [
        *(f"-A {CHAIN} -d {cidr} -j RETURN" for cidr in (*cidrs, *others)),
        f"-A {CHAIN} -d {_MULTICAST[family]} -j RETURN",
        *(f"-A {CHAIN} -s {cidr} {said} -j MASQUERADE" for cidr in cidrs),
    ]
    return "\n".join(["*nat", f":{CHAIN} - [0:0]", *rules, "COMMIT", ""])


async def ensure(runner: Runner, cidrs: Sequence[str], others: Sequence[str] = ()) -> None:
    """Make chain and jump as they should be, for each address family in ``cidrs``; ``others`` as in :func:`restore_input`.
    Raises component.process.ProcessError."""
    for family, tool in _TOOLS.items():
        mine, theirs = _of(family, cidrs), _of(family, others)
        if not mine:
            continue
        listed = await runner.run([tool, "-w", "5", "-t", "nat", "-S", CHAIN], check=False)
        wanted = restore_input(mine, theirs)
        if listed.returncode != 0 or _rules(listed.stdout.decode()) != _rules(wanted):
            await runner.run([f"{tool}-restore", "-w", "5", "--noflush"], stdin=wanted.encode())
        jump = ["POSTROUTING", "-j", CHAIN]
        if (await runner.run([tool, "-w", "5", "-t", "nat", "-C", *jump], check=False)).returncode != 0:
            await runner.run([tool, "-w", "5", "-t", "nat", "-A", *jump])


def _of(family: int, cidrs: Sequence[str]) -> list[str]:
    return [cidr for cidr in cidrs if ipaddress.ip_network(cidr).version == family]


def _rules(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("-A ")]
