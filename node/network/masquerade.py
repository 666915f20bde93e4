"""Source NAT for what pods send out of the node: one chain for the whole pod CIDR, instead of one per pod.

The bridge plugin's own ``ipMasq`` makes a chain for every pod and runs iptables ten times for it; with thirty pods at once,
and a proxy that wants the same lock, that is a third of their start-up time. The kubelet writes this chain with the CNI
configuration and looks after it once a minute. ``CNI-`` in its name lets every tool that clears CNI's chains clear it.
"""

import ipaddress
from collections.abc import Sequence

from component.process import Runner

CHAIN = "CNI-PYBERNETES-MASQ"
_MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}
_TOOLS = {4: "iptables", 6: "ip6tables"}


def restore_input(cidrs: Sequence[str]) -> str:
    """What iptables-restore --noflush gets to make the chain hold just these rules. Pure."""
    family = ipaddress.ip_network(cidrs[0]).version
    said = '-m comment --comment "pods reach the world as their node"'
    rules = [
        *(f"-A {CHAIN} -d {cidr} -j RETURN" for cidr in cidrs),
        f"-A {CHAIN} -d {_MULTICAST[family]} -j RETURN",
        *(f"-A {CHAIN} -s {cidr} {said} -j MASQUERADE" for cidr in cidrs),
    ]
    return "\n".join(["*nat", f":{CHAIN} - [0:0]", *rules, "COMMIT", ""])


async def ensure(runner: Runner, cidrs: Sequence[str]) -> None:
    """Make chain and jump as they should be, for each address family in ``cidrs``. Raises component.process.ProcessError."""
    for family, tool in _TOOLS.items():
        mine = [cidr for cidr in cidrs if ipaddress.ip_network(cidr).version == family]
        if not mine:
            continue
        listed = await runner.run([tool, "-w", "5", "-t", "nat", "-S", CHAIN], check=False)
        wanted = _rules(restore_input(mine))
        if listed.returncode != 0 or len(listed.stdout.decode().splitlines()) - 1 != len(wanted):
            await runner.run([f"{tool}-restore", "-w", "5", "--noflush"], stdin=restore_input(mine).encode())
        jump = ["POSTROUTING", "-j", CHAIN]
        if (await runner.run([tool, "-w", "5", "-t", "nat", "-C", *jump], check=False)).returncode != 0:
            await runner.run([tool, "-w", "5", "-t", "nat", "-A", *jump])


def _rules(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("-A ")]
