"""What a DNS query costs: ``python -m bench.dns``. One process, no network but loopback; every row is printed with its parts.

In-process rows call the responder as the datagram protocol does; the loopback row adds sockets and a client that waits.
"""

import asyncio
import resource
import sys
import time
from collections.abc import Callable
from typing import cast

import dns.message
import uvloop

from netproxy.dns import server
from tests.support.dns import UDP, Zone, endpoint_slice, external, service

SERVICES = 10_000


def filled() -> Zone:
    zone = Zone()
    for number in range(SERVICES):
        high, low = divmod(number, 250)
        zone.add(service(f"web-{number}", f"10.100.{high}.{low + 1}"))
        zone.add(endpoint_slice(f"web-{number}", *(f"10.{each}.{high}.{low + 1}" for each in (1, 2, 3))))
    zone.add(service("crowd"))
    zone.add(endpoint_slice("crowd", *(f"10.200.0.{last}" for last in range(60))))
    zone.add(external("outside", "example.com"))
    return zone


def packet(name: str, kind: str = "A") -> bytes:
    return dns.message.make_query(name, kind, use_edns=0).to_wire()


def cost(act: Callable[[], object], seconds: float = 1.0) -> float:
    """Microseconds of CPU of one call."""
    count, until, began = 0, time.perf_counter() + seconds, time.process_time()
    while time.perf_counter() < until:
        for _ in range(100):
            act()
        count += 100
    return (time.process_time() - began) / count * 1e6


async def loopback(zone: Zone, data: bytes, clients: int, seconds: float = 2.0) -> tuple[float, float, float]:
    """Queries a second, and the median and 99th percentile of their latency in microseconds; the clients share our CPU."""
    loop, times = asyncio.get_running_loop(), list[float]()
    async with server.listening(zone.responder, ["127.0.0.1"], 0) as bound:
        until = time.perf_counter() + seconds

        class Client(asyncio.DatagramProtocol):
            began = 0.0

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.transport = cast("asyncio.DatagramTransport", transport)
                self.ask()

            def ask(self) -> None:
                self.began = time.perf_counter()
                self.transport.sendto(data)

            def datagram_received(self, data: bytes, addr: object) -> None:
                now = time.perf_counter()
                times.append(now - self.began)
                if now < until:
                    self.ask()

        made = [(await loop.create_datagram_endpoint(Client, remote_addr=bound[0]))[0] for _ in range(clients)]
        await asyncio.sleep(seconds + 0.1)
        for each in made:
            each.close()
    times.sort()
    return len(times) / seconds, times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6


def main() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    zone = filled()
    took = time.process_time() - began
    print(f"{SERVICES} services with 3 endpoints each: indexed in {took:.2f} s ({took / SERVICES * 1e6:.0f} us a service)")
    print(f"memory of the index: {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.0f} MB\n")
    at = "default.svc.cluster.local"
    hot, absent, crowd = packet(f"web-77.{at}"), packet(f"example.com.{at}"), packet(f"crowd.{at}")
    names = [packet(f"web-{number}.{at}") for number in range(SERVICES)]

    def cold(state: list[int] = [0]) -> None:  # noqa: B006 - a counter
        state[0] = (state[0] + 1) % SERVICES
        if state[0] == 0:
            zone.responder.forget()
        zone.responder.respond(names[state[0]], UDP)

    rows = [
        ("a name that was asked before", cost(lambda: zone.responder.respond(hot, UDP))),
        ("one that does not exist (search path)", cost(lambda: zone.responder.respond(absent, UDP))),
        ("60 addresses of a headless service", cost(lambda: zone.responder.respond(crowd, UDP))),
        ("a name never asked before", cost(cold, 2.0)),
        ("an endpoint changed, then asked", cost(lambda: (zone.responder.forget(), zone.responder.respond(hot, UDP)))),
        ("dnspython alone: read the query", cost(lambda: dns.message.from_wire(hot))),
        ("dnspython alone: write the answer", cost(dns.message.from_wire(bytes(zone.responder.respond(hot, UDP))).to_wire)),  # type: ignore[arg-type]
    ]
    print("| query | CPU, us |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value:.1f} |")
    print("\n| clients on loopback, in this process | queries/s | median, us | p99, us |\n|---|---|---|---|")
    for clients in (1, 32):
        rate, median, p99 = uvloop.run(loopback(zone, hot, clients))
        print(f"| {clients} | {rate:.0f} | {median:.0f} | {p99:.0f} |")


if __name__ == "__main__":
    sys.exit(main())
