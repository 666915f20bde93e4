"""What one event costs an API server when many watch: ``python -m bench.watch [--peer] [--etcd]``, root, on a quiet machine.

A hundred watchers, each a thread of one client process with a TLS connection of its own, see one ConfigMap change as often as
it is patched, each patch on a connection of its own; that is what the other measuring tools do, so the figures compare. The
servers take turns, and what is printed is CPU of server and store together for each event that a watcher read.
"""

import argparse
import http.client
import json
import os
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peer import PORT, TOKEN, peer_apiserver
from tests.support.daemons import bench, processor_seconds
from tests.support.etcd import running_etcd
from tests.support.netns import own_network_namespace

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True)
class Server:
    name: str
    port: int
    token: str
    pids: Sequence[int]

    def cpu(self) -> float:
        """Seconds that its processes have taken so far."""
        return sum(map(processor_seconds, self.pids))

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=120)

    def headers(self, kind: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body).encode() if body else None, self.headers(kind))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Outcome:
    microseconds: float  # of the server's CPU for each event
    events: int
    p50: float  # milliseconds from before the patch to the watcher
    p99: float


def fan_out(server: Server, watchers: int, changes: int) -> Outcome:
    """One round, on an object of its own."""
    name = f"fan-{time.monotonic_ns()}"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "0", "pad": "y" * 500}}
    version = server.request("POST", CONFIGMAPS, made)["metadata"]["resourceVersion"]
    watched = f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
    delays: list[float] = []
    ready = threading.Barrier(watchers + 1)

    def follow() -> None:
        connection = server.connect()
        connection.request("GET", watched, headers=server.headers())
        answer = connection.getresponse()
        ready.wait()
        for _ in range(changes):
            sent = float(json.loads(answer.readline())["object"]["data"]["k"])
            delays.append(time.time() - sent)
        connection.close()

    threads = [threading.Thread(target=follow) for _ in range(watchers)]
    for thread in threads:
        thread.start()
    ready.wait()
    time.sleep(1)
    before = server.cpu()
    for _ in range(changes):
        server.request("PATCH", f"{CONFIGMAPS}/{name}", {"data": {"k": repr(time.time())}}, "application/merge-patch+json")
    for thread in threads:
        thread.join()
    spent = server.cpu() - before
    delays.sort()
    count = len(delays)
    return Outcome(spent / count * 1e6, count, delays[count // 2] * 1e3, delays[int(count * 0.99)] * 1e3)


@contextmanager
def ours(name: str, folder: Path, storage: Sequence[str] = (), pids: Sequence[int] = ()) -> Iterator[Server]:
    with bench(folder / name) as made:
        made.storage = storage
        daemon = made.start_apiserver()
        yield Server(name, made.port, made.token, (daemon.process.pid, *pids))


@contextmanager
def upstream(folder: Path, tools: Path) -> Iterator[Server]:
    for command in ("link add up0 type veth peer name up1", "link set up0 up", "address add 192.0.2.1/32 dev up0"):
        subprocess.run(["ip", *command.split()], check=True)  # it wants an address that is not loopback's to advertise
    with peer_apiserver(tools, folder, lambda *argv: list(argv)) as pids:
        yield Server("peer", PORT, TOKEN, pids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=str(Path(__file__).parents[2] / "shared" / "bench"), help="folder of peer-up")
    parser.add_argument("--peer", action="store_true", help="upstream's API server takes turns with ours")
    parser.add_argument("--etcd", action="store_true", help="ours on etcd as well")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--changes", type=int, default=200)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyb-watch-", dir="/var/tmp")))
        stack.enter_context(own_network_namespace())
        servers = [stack.enter_context(ours("SQLite", folder))]
        if arguments.etcd:
            (folder / "etcd").mkdir()
            etcd = stack.enter_context(running_etcd(folder / "etcd"))
            pids = [member.process.pid for member in etcd.members if member.process]
            servers.append(stack.enter_context(ours("on-etcd", folder, etcd.flags(), pids)))
        if arguments.peer:
            servers.append(stack.enter_context(upstream(folder / "peer", Path(arguments.tools))))
        measure(servers, arguments.rounds, arguments.watchers, arguments.changes)


def measure(servers: Sequence[Server], rounds: int, watchers: int, changes: int) -> None:
    print(f"{'':<10}{'CPU an event':>14}{'p50':>10}{'p99':>10}{'load':>8}", flush=True)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for server in servers:
            outcome = fan_out(server, watchers, changes)
            found.setdefault(server.name, []).append(outcome.microseconds)
            load = os.getloadavg()[0]
            print(
                f"{server.name:<10}{outcome.microseconds:>11.1f} us{outcome.p50:>7.1f} ms{outcome.p99:>7.1f} ms{load:>8.1f}",
                flush=True,
            )
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, value in medians.items():
        beside = f", {value / medians['peer']:.2f} of the peer" if "peer" in medians and name != "peer" else ""
        print(f"{name}: median {value:.1f} us{beside}")


if __name__ == "__main__":
    main()
