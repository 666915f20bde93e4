"""Several "machines" on one kernel: network namespaces on one bridge, each with an address and a loopback of its own.

    with machines(3) as found:
        subprocess.run([*found[0].wrap, "ip", "address"])

The calling thread (and every process and thread it starts) moves into a namespace in the middle, the client's machine, at
``CLIENT``; nothing of the host's own network is seen or touched. ``cut`` takes a machine's cable out.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.netns import own_network_namespace

_NET = "198.18.0"  # RFC 2544: for tests of networks
CLIENT = f"{_NET}.1"


@dataclass(frozen=True)
class Machine:
    number: int
    namespace: str
    port: str  # the bridge's end of its cable

    @property
    def address(self) -> str:
        return f"{_NET}.{self.number + 10}"

    @property
    def wrap(self) -> list[str]:
        """Put before a command line, runs it there."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--"]

    def cut(self) -> None:
        _ip("link", "set", self.port, "down")

    def mend(self) -> None:
        _ip("link", "set", self.port, "up")


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    with own_network_namespace() as hub:
        made: list[Machine] = []
        try:
            _ip("link", "add", "br0", "type", "bridge")
            _ip("address", "add", f"{CLIENT}/24", "dev", "br0")
            _ip("link", "set", "br0", "up")
            for number in range(count):
                _plug_in(made, hub, number)
            yield made
        finally:
            for machine in made:
                subprocess.run(["ip", "netns", "delete", machine.namespace], check=False, capture_output=True)


def _plug_in(made: list[Machine], hub: str, number: int) -> None:
    machine = Machine(number, f"{hub}-{number}", f"m{number}")
    _ip("netns", "add", machine.namespace)
    made.append(machine)
    _ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
    _ip("link", "set", machine.port, "master", "br0", "up")
    inside = ("-n", machine.namespace)
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "address", "add", f"{machine.address}/24", "dev", "eth0")
    _ip(*inside, "link", "set", "eth0", "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
