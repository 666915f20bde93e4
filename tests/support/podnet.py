"""A node's network without containers: a bridge with pod-like namespaces, and a host outside, all in namespaces of their own.

    with pod_network() as net:          # this thread is now on "the node", 10.0.0.1 on its link to outside, pods on 10.244.0.0/24
        pod = net.pod(); pod.serve_tcp(8080)

Every host has an address of each family; the network is asked in one of them, IPv4 unless told otherwise (``net.plan``).

Pods serve with ``serve_tcp`` and ``serve_udp`` (they answer their own address and the client's); ``ask_tcp`` and ``ask_udp``
ask from a pod, from outside or, with ``net.node``, from the node.
"""

import contextlib
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from netproxy.trackers.services import Family
from tests.support.netns import enter, own_network_namespace

T = TypeVar("T")


@dataclass(frozen=True)
class AddressPlan:
    """Who has which address in one family. ``balancer`` and ``elsewhere`` (a range) belong to nobody here."""

    family: Family
    pod_cidr: str
    pods: str
    bridge: str
    node: str
    outside: str
    services: str
    balancer: str
    elsewhere: str
    neighbours: str
    mask: int
    every: str

    def pod(self, number: int) -> str:
        return f"{self.pods}{number}"

    def service(self, number: int) -> str:
        return f"{self.services}{number}"


V4 = AddressPlan(
    family="IPv4",
    pod_cidr="10.244.0.0/16",
    pods="10.244.0.",
    bridge="10.244.0.1",
    node="10.0.0.1",
    outside="10.0.0.2",
    services="10.96.0.",
    balancer="198.51.100.20",
    elsewhere="192.0.2.0/24",
    neighbours="10.0.0.0/24",
    mask=24,
    every="0.0.0.0",
)
V6 = AddressPlan(
    family="IPv6",
    pod_cidr="fd00:10:244::/56",
    pods="fd00:10:244::",
    bridge="fd00:10:244::1",
    node="fd00:10::1",
    outside="fd00:10::2",
    services="fd00:10:96::",
    balancer="2001:db8:51::20",
    elsewhere="2001:db8:2::/64",
    neighbours="fd00:10::/64",
    mask=64,
    every="::",
)
POD_CIDR, NODE_IP, OUTSIDE_IP = V4.pod_cidr, V4.node, V4.outside

_TCP_SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[3] else socket.AF_INET
s = socket.create_server((sys.argv[3], int(sys.argv[2])), family=family, backlog=64)
print("ready", flush=True)
while True:
    c, peer = s.accept()
    c.sendall(f"{sys.argv[1]} {peer[0]}".encode()); c.close()
"""
_UDP_SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[3] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM); s.bind((sys.argv[3], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(f"{sys.argv[1]} {peer[0]}".encode(), peer)
"""
_TCP_ECHO = """
import socket, sys
s = socket.create_server((sys.argv[3], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[3] else socket.AF_INET)
print("ready", flush=True)
c, peer = s.accept()
while data := c.recv(2048):
    c.sendall(data)
"""
_ASK_ON = """
import select, socket, sys
answered = failed = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2) as c:
            assert c.makefile().read()
        answered += 1; print("+", flush=True)
    except (OSError, AssertionError):
        failed += 1
print(answered, failed)
"""


@dataclass
class Asking:
    """A client that goes on asking."""

    process: subprocess.Popen[str]

    def wait(self, answers: int) -> None:
        """Until so many more were answered."""
        assert self.process.stdout is not None
        for _ in range(answers):
            assert self.process.stdout.readline() == "+\n"

    def stop(self) -> tuple[int, int]:
        """How many connections were answered, and how many failed."""
        out, _ = self.process.communicate("stop\n", timeout=60)
        answered, failed = out.splitlines()[-1].split()
        return int(answered), int(failed)


@dataclass
class Host:
    """A place to send from, and to serve in."""

    namespace: str
    ip: str
    every: str = V4.every
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _argv(self, *argv: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *argv]

    def ask_tcp(self, ip: str, port: int, seconds: float = 1.0) -> tuple[str, str]:
        """Who answered and which source it saw; or the error's name and nothing."""

        def ask() -> str:
            with socket.create_connection((ip, port), timeout=seconds) as connection:
                return connection.makefile().read()

        return self._ask(ask)

    def ask_udp(self, ip: str, port: int, seconds: float = 1.0, source_port: int = 0) -> tuple[str, str]:
        def ask() -> str:
            with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(seconds)
                if source_port:
                    asking.bind((self.every, source_port))
                asking.connect((ip, port))
                asking.send(b"?")
                return asking.recv(2048).decode()

        return self._ask(ask)

    def _ask(self, ask: Callable[[], str]) -> tuple[str, str]:
        try:
            who, _, source = _within(self.namespace, ask).strip().partition(" ")
        except OSError as error:
            return type(error).__name__, ""
        return who, source

    def serve_tcp(self, port: int, address: str = "") -> None:
        self._serve(_TCP_SERVER, port, address)

    def asking_tcp(self, ip: str, port: int) -> "Asking":
        """Ask again and again until told to stop."""
        argv = self._argv(sys.executable, "-IS", "-c", _ASK_ON, ip, str(port))
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return Asking(process)

    def command(self, *argv: str) -> None:
        """Run a program here."""
        subprocess.run(self._argv(*argv), check=True, capture_output=True)

    def ip_command(self, *arguments: str) -> None:
        _ip("-n", self.namespace, *arguments)

    def sysctl(self, name: str, value: str) -> None:
        subprocess.run(self._argv("sh", "-c", f"echo {value} > /proc/sys/{name}"), check=True)

    def echo_tcp(self, port: int) -> None:
        """Send one connection's bytes back."""
        self._serve(_TCP_ECHO, port)

    def serve_udp(self, port: int) -> None:
        self._serve(_UDP_SERVER, port)

    def _serve(self, code: str, port: int, address: str = "") -> None:
        process = subprocess.Popen(
            self._argv(sys.executable, "-IS", "-c", code, self.ip, str(port), address or self.every),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

    def stop_serving(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()


@dataclass
class PodNetwork:
    node: Host
    outside: Host
    plan: AddressPlan = V4
    pods: list[Host] = field(default_factory=list)

    def pod(self) -> Host:
        """One more pod on the bridge, with hairpin allowed on its port as CNI's bridge plugin does."""
        number = len(self.pods) + 2
        name = f"pyb-{uuid.uuid4().hex[:10]}"
        veth = f"v{name[4:12]}"
        _ip("netns", "add", name)
        host = Host(name, self.plan.pod(number), self.plan.every)
        self.pods.append(host)
        _ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", veth, "master", "br0", "up")
        subprocess.run(["bridge", "link", "set", "dev", veth, "hairpin", "on"], check=True)
        for plan in (V4, V6):
            _inside(name, plan.pod(number), plan.bridge, plan.mask)
        return host


@contextmanager
def pod_network(plan: AddressPlan = V4) -> Iterator[PodNetwork]:
    with own_network_namespace() as name:
        outside = Host(f"pyb-{uuid.uuid4().hex[:10]}", plan.outside, plan.every)
        net = PodNetwork(Host(name, plan.node, plan.every), outside, plan)
        try:
            _sysctl("net/ipv4/ip_forward", "1")
            _sysctl("net/ipv6/conf/all/forwarding", "1")
            _sysctl("net/ipv6/conf/default/accept_dad", "0")
            # no snooping: it would hold back neighbour solicitations, which are multicast, until a querier was heard
            _ip("link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
            _ip("link", "set", "br0", "up")
            _ip("netns", "add", net.outside.namespace)
            _ip("link", "add", "uplink", "type", "veth", "peer", "name", "eth0", "netns", net.outside.namespace)
            _ip("link", "set", "uplink", "up")
            for each in (V4, V6):
                _address(f"{each.bridge}/{each.mask}", "br0")
                _address(f"{each.node}/{each.mask}", "uplink")
                _inside(net.outside.namespace, each.outside, each.node, each.mask)
                # without any route the node could not even send to a cluster IP: rules see only what was routed
                _ip("route", "add", "default", "via", each.outside)
            yield net
        finally:
            for host in (net.outside, *net.pods, net.node):
                host.stop_serving()
                if host is not net.node:
                    subprocess.run(["ip", "netns", "delete", host.namespace], check=False, capture_output=True)


def _inside(namespace: str, address: str, gateway: str, mask: int) -> None:
    _ip("-n", namespace, "link", "set", "lo", "up")
    _address(f"{address}/{mask}", "eth0", namespace)
    _within(namespace, lambda: _sysctl("net/ipv6/conf/eth0/accept_dad", "0"))
    _ip("-n", namespace, "link", "set", "eth0", "up")
    _ip("-n", namespace, "route", "add", "default", "via", gateway)


def _within(namespace: str, do: Callable[[], T]) -> T:
    """On a thread of its own, which is all of this process that is moved into the namespace."""

    def inside() -> T:
        enter(namespace)
        return do()

    with ThreadPoolExecutor(1) as fresh:
        return fresh.submit(inside).result(timeout=20)


def _address(address: str, interface: str, namespace: str = "") -> None:
    """Usable at once: IPv6 would first look for a second owner of the address."""
    _ip(
        *(["-n", namespace] if namespace else []),
        "addr",
        "add",
        address,
        "dev",
        interface,
        *(["nodad"] if ":" in address else []),
    )


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _sysctl(name: str, value: str) -> None:
    with open(f"/proc/sys/{name}", "w") as file:
        file.write(value)


def eventually(check: object, seconds: float = 5.0) -> None:
    """Call until it is true."""
    assert callable(check)
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"still not so after {seconds} s"
        with contextlib.suppress(InterruptedError):
            time.sleep(0.05)
