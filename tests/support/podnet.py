"""A node's network without containers: a bridge with pod-like namespaces, and a host outside, all in namespaces of their own.

    with pod_network() as net:          # this thread is now on "the node", 10.0.0.1 on its link to outside, pods on 10.244.0.0/24
        pod = net.pod(); pod.run("cat", ...)

Pods serve with ``serve_tcp`` and ``serve_udp`` (they answer their own address and the client's); ``ask_tcp`` and ``ask_udp``
ask from a pod, from outside or, with ``net.node``, from the node.
"""

import contextlib
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.netns import own_network_namespace

POD_CIDR = "10.244.0.0/16"
NODE_IP = "10.0.0.1"
OUTSIDE_IP = "10.0.0.2"

_TCP_SERVER = """
import socket, sys
s = socket.create_server((sys.argv[3], int(sys.argv[2])), backlog=64)
print("ready", flush=True)
while True:
    c, peer = s.accept()
    c.sendall(f"{sys.argv[1]} {peer[0]}".encode()); c.close()
"""
_UDP_SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(f"{sys.argv[1]} {peer[0]}".encode(), peer)
"""
_TCP_ECHO = """
import socket, sys
s = socket.create_server(("0.0.0.0", int(sys.argv[2])))
print("ready", flush=True)
c, peer = s.accept()
while data := c.recv(2048):
    c.sendall(data)
"""
_ASK_TCP = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as c:
        print(c.makefile().read())
except (OSError, TimeoutError) as error:
    print(type(error).__name__)
"""
_ASK_UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(sys.argv[3]))
if sys.argv[4] != "0": s.bind(("0.0.0.0", int(sys.argv[4])))
s.connect((sys.argv[1], int(sys.argv[2])))
try:
    s.send(b"?"); print(s.recv(2048).decode())
except (OSError, TimeoutError) as error:
    print(type(error).__name__)
"""


_ASK_ON = """
import select, socket, sys
answered = failed = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2) as c:
            answered += 1; assert c.makefile().read()
    except (OSError, AssertionError):
        failed += 1
print(answered, failed)
"""


@dataclass
class Asking:
    """A client that goes on asking."""

    process: subprocess.Popen[str]

    def stop(self) -> tuple[int, int]:
        """How many connections were answered, and how many failed."""
        out, _ = self.process.communicate("stop\n", timeout=10)
        answered, failed = out.split()
        return int(answered), int(failed)


@dataclass
class Host:
    """A place to send from, and to serve in."""

    namespace: str
    ip: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _argv(self, *argv: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *argv]

    def ask_tcp(self, ip: str, port: int, seconds: float = 1.0) -> tuple[str, str]:
        """Who answered and which source it saw; or the error's name and nothing."""
        return self._ask(_ASK_TCP, ip, str(port), str(seconds))

    def ask_udp(self, ip: str, port: int, seconds: float = 1.0, source_port: int = 0) -> tuple[str, str]:
        return self._ask(_ASK_UDP, ip, str(port), str(seconds), str(source_port))

    def _ask(self, code: str, *arguments: str) -> tuple[str, str]:
        done = subprocess.run(
            self._argv(sys.executable, "-c", code, *arguments), capture_output=True, text=True, timeout=20, check=True
        )
        who, _, source = done.stdout.strip().partition(" ")
        return who, source

    def serve_tcp(self, port: int, address: str = "0.0.0.0") -> None:
        self._serve(_TCP_SERVER, port, address)

    def asking_tcp(self, ip: str, port: int) -> "Asking":
        """Ask again and again until told to stop."""
        argv = self._argv(sys.executable, "-c", _ASK_ON, ip, str(port))
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
            self._argv(sys.executable, "-c", code, self.ip, str(port), address), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
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
    pods: list[Host] = field(default_factory=list)

    def pod(self) -> Host:
        """One more pod on the bridge, with hairpin allowed on its port as CNI's bridge plugin does."""
        number = len(self.pods) + 2
        name = f"pyb-{uuid.uuid4().hex[:10]}"
        veth = f"v{name[4:12]}"
        _ip("netns", "add", name)
        host = Host(name, f"10.244.0.{number}")
        self.pods.append(host)
        _ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", veth, "master", "br0", "up")
        subprocess.run(["bridge", "link", "set", "dev", veth, "hairpin", "on"], check=True)
        _inside(name, f"{host.ip}/24", "10.244.0.1")
        return host


@contextmanager
def pod_network() -> Iterator[PodNetwork]:
    with own_network_namespace() as name:
        net = PodNetwork(Host(name, NODE_IP), Host(f"pyb-{uuid.uuid4().hex[:10]}", OUTSIDE_IP))
        try:
            _sysctl("net/ipv4/ip_forward", "1")
            _ip("link", "add", "br0", "type", "bridge")
            _ip("addr", "add", "10.244.0.1/24", "dev", "br0")
            _ip("link", "set", "br0", "up")
            _ip("netns", "add", net.outside.namespace)
            _ip("link", "add", "uplink", "type", "veth", "peer", "name", "eth0", "netns", net.outside.namespace)
            _ip("addr", "add", f"{NODE_IP}/24", "dev", "uplink")
            _ip("link", "set", "uplink", "up")
            # without any route the node could not even send to a cluster IP: rules see only what was routed
            _ip("route", "add", "default", "via", OUTSIDE_IP)
            _inside(net.outside.namespace, f"{OUTSIDE_IP}/24", NODE_IP)
            yield net
        finally:
            for host in (net.outside, *net.pods, net.node):
                host.stop_serving()
                if host is not net.node:
                    subprocess.run(["ip", "netns", "delete", host.namespace], check=False, capture_output=True)


def _inside(namespace: str, address: str, gateway: str) -> None:
    _ip("-n", namespace, "link", "set", "lo", "up")
    _ip("-n", namespace, "addr", "add", address, "dev", "eth0")
    _ip("-n", namespace, "link", "set", "eth0", "up")
    _ip("-n", namespace, "route", "add", "default", "via", gateway)


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
