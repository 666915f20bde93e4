"""Names outside the cluster: asked once, in order, remembered for as long as they may be."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import dns.message
import dns.rcode
import dns.rrset
import pytest

from component.clock import FakeClock
from netproxy.dns import forward
from netproxy.dns.resolvers import probe
from netproxy.dns.upstream import Address
from tests.support.dns import TCP, UDP, Zone, external, service, texts

Script = Callable[[dns.message.Message], list[bytes]]


def answering(*records: str, ttl: int = 300, rcode: int = 0) -> Script:
    def script(query: dns.message.Message) -> list[bytes]:
        made = dns.message.make_response(query, recursion_available=True)
        made.set_rcode(dns.rcode.Rcode(rcode))
        if records:
            made.answer.append(dns.rrset.from_text(query.question[0].name, ttl, "IN", "A", *records))
        else:
            made.authority.append(dns.rrset.from_text("test.", ttl, "IN", "SOA", f"ns.test. root.test. 1 1 1 1 {ttl}"))
        return [made.to_wire()]

    return script


class Resolver(asyncio.DatagramProtocol):
    """A resolver that follows a script, on both transports; it remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script, self.asked, self.by_tcp = script, list[dns.message.Message](), 0
        self.address = Address("127.0.0.1", 1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        self.asked.append(query)
        for each in self.script(query):
            self.transport.sendto(each, addr)  # type: ignore[attr-defined]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.by_tcp += 1
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        (answer,) = answering("192.0.2.99")(dns.message.from_wire(await reader.readexactly(length)))
        writer.write(struct.pack("!H", len(answer)) + answer)
        writer.close()


@asynccontextmanager
async def resolver(script: Script) -> AsyncIterator[Resolver]:
    made = Resolver(script)
    server = await asyncio.start_server(made.connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: made, ("127.0.0.1", port))
    made.address = Address("127.0.0.1", port)
    try:
        yield made
    finally:
        transport.close()
        server.close()


async def ask(zone: Zone, name: str, kind: str = "A", **options: object) -> dns.message.Message:
    query = dns.message.make_query(name, kind, **options)  # type: ignore[arg-type]
    reply = zone.responder.respond(query.to_wire(), UDP)
    answer = dns.message.from_wire(reply if isinstance(reply, bytes) else await reply)
    assert query.is_response(answer)
    return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "ATTEMPT_SECONDS", 0.2)


async def test_an_answer_is_kept_for_its_time_and_ages() -> None:
    clock = FakeClock()
    zone = Zone(clock=clock)
    async with resolver(answering("192.0.2.1")) as server:
        zone.forwarder.use([server.address])
        first = await ask(zone, "wWw.example.com")
        assert texts(first) == ["wWw.example.com. 30 A 192.0.2.1"]  # no longer than the cache may
        assert first.flags & dns.flags.RA
        assert not first.flags & dns.flags.AA
        await clock.advance(12)
        assert texts(await ask(zone, "www.EXAMPLE.com")) == ["www.EXAMPLE.com. 18 A 192.0.2.1"]
        assert len(server.asked) == 1
        await clock.advance(18)
        await ask(zone, "www.example.com")
        assert len(server.asked) == 2
        assert {(query.edns, query.payload) for query in server.asked} == {(0, 1232)}


async def test_those_who_ask_the_same_at_once_share_one_question() -> None:
    zone = Zone()
    async with resolver(answering("192.0.2.1")) as server:
        zone.forwarder.use([server.address])
        answers = await asyncio.gather(*(ask(zone, "www.example.com") for _ in range(20)))
        assert {tuple(texts(each)) for each in answers} == {("www.example.com. 30 A 192.0.2.1",)}
        assert len(server.asked) == 1


async def test_a_denial_is_kept_too_and_a_stray_answer_is_not_taken() -> None:
    def forged(query: dns.message.Message) -> list[bytes]:
        other = dns.message.make_query("other.example.com", "A", id=query.id)
        wrong = answering("203.0.113.66")(dns.message.make_query(query.question[0].name, "A", id=query.id ^ 1))
        return [*answering("203.0.113.66")(other), *wrong, b"", b"x" * 40, *answering(rcode=3)(query)]

    zone = Zone()
    async with resolver(forged) as server:
        zone.forwarder.use([server.address])
        for _ in range(2):
            answer = await ask(zone, "nobody.example.com")
            assert (answer.rcode(), texts(answer)) == (dns.rcode.NXDOMAIN, [])
            assert texts(answer, "authority")
        assert len(server.asked) == 1


async def test_what_is_cut_is_asked_again_by_tcp() -> None:
    def cut(query: dns.message.Message) -> list[bytes]:
        made = dns.message.make_response(query)
        made.flags |= dns.flags.TC
        return [made.to_wire()]

    zone = Zone()
    async with resolver(cut) as server:
        zone.forwarder.use([server.address])
        assert texts(await ask(zone, "large.example.com")) == ["large.example.com. 30 A 192.0.2.99"]
        assert server.by_tcp == 1


@pytest.mark.parametrize("with_question", [True, False])
async def test_a_resolver_without_edns_is_asked_as_it_can_read(with_question: bool) -> None:
    def old(query: dns.message.Message) -> list[bytes]:
        if query.edns < 0:
            return answering("192.0.2.1")(query)
        refusal = dns.message.Message(id=query.id) if not with_question else dns.message.make_response(query)
        refusal.flags |= dns.flags.QR
        refusal.set_rcode(dns.rcode.FORMERR)
        refusal.use_edns(False)
        return [refusal.to_wire()]

    zone = Zone()
    async with resolver(old) as server:
        zone.forwarder.use([server.address])
        assert texts(await ask(zone, "www.example.com")) == ["www.example.com. 30 A 192.0.2.1"]
        assert [query.edns for query in server.asked] == [0, -1]
        server.script = answering(rcode=1)  # whatever we ask
        assert (await ask(zone, "x.example.com")).rcode() == dns.rcode.FORMERR


async def test_the_next_resolver_is_asked_when_one_is_silent_and_a_silent_one_goes_last() -> None:
    zone = Zone()
    async with resolver(lambda _: []) as silent, resolver(answering("192.0.2.1")) as server:
        zone.forwarder.use([silent.address, server.address])
        for number in range(4):
            assert texts(await ask(zone, f"{number}.example.com"))
        assert len(silent.asked) == 2
        assert len(server.asked) == 4


async def test_without_an_answer_the_client_hears_servfail_and_others_do_not_wait() -> None:
    zone = Zone()
    async with resolver(lambda _: []) as silent:
        zone.forwarder.use([silent.address])
        for number in range(2):
            assert (await ask(zone, f"{number}.example.com")).rcode() == dns.rcode.SERVFAIL
        # one finds out, the rest fail at once
        answers = await asyncio.gather(*(ask(zone, f"x{number}.example.com") for number in range(8)))
        assert {each.rcode() for each in answers} == {dns.rcode.SERVFAIL}
        assert len(silent.asked) == 3
        silent.script = answering("192.0.2.1")
        assert texts(await ask(zone, "again.example.com"))


async def test_when_all_were_silent_each_is_tried_in_turn() -> None:
    zone = Zone()
    async with resolver(lambda _: []) as first, resolver(lambda _: []) as second:
        zone.forwarder.use([first.address, second.address])
        for number in range(3):
            await ask(zone, f"{number}.example.com")
        second.script = answering("192.0.2.1")
        answers = [await ask(zone, f"again{number}.example.com") for number in range(2)]
        assert texts(answers[1])
        assert texts(await ask(zone, "since.example.com"))


async def test_more_questions_than_may_wait_are_refused() -> None:
    zone = Zone()
    async with resolver(lambda _: []) as silent:
        zone.forwarder.use([silent.address])
        answers = await asyncio.gather(*(ask(zone, f"{number}.example.com") for number in range(12)))
        assert sorted(each.rcode() for each in answers) == [dns.rcode.SERVFAIL] * 10 + [dns.rcode.REFUSED] * 2


async def test_an_old_answer_serves_while_no_resolver_gives_a_new_one() -> None:
    clock = FakeClock()
    zone = Zone(clock=clock, stale=3600)
    async with resolver(answering("192.0.2.1", ttl=20)) as server:
        zone.forwarder.use([server.address])
        assert texts(await ask(zone, "www.example.com")) == ["www.example.com. 20 A 192.0.2.1"]
        server.script = answering(rcode=2)
        await clock.advance(1000)
        for _ in range(3):
            assert texts(await ask(zone, "www.example.com")) == ["www.example.com. 0 A 192.0.2.1"]
        assert len(server.asked) == 2  # a failure is remembered
        assert zone.cache.served_stale == 3
        assert (await ask(zone, "new.example.com")).rcode() == dns.rcode.SERVFAIL
        await clock.advance(10)
        server.script = answering("192.0.2.2", ttl=20)
        assert texts(await ask(zone, "www.example.com")) == ["www.example.com. 20 A 192.0.2.2"]
        server.script = answering(rcode=2)
        await clock.advance(3700)
        assert (await ask(zone, "www.example.com")).rcode() == dns.rcode.SERVFAIL


async def test_what_many_ask_for_is_fetched_anew_before_it_ends() -> None:
    clock = FakeClock()
    zone = Zone(clock=clock, popular=3)
    async with resolver(answering("192.0.2.1", ttl=30)) as server:
        zone.forwarder.use([server.address])
        await ask(zone, "often.example.com")
        await ask(zone, "seldom.example.com")
        for _ in range(3):
            await ask(zone, "often.example.com")
        assert len(server.asked) == 2
        server.script = answering("192.0.2.2", ttl=30)
        await clock.advance(28)
        for _ in range(5):
            assert texts(await ask(zone, "often.example.com")) == ["often.example.com. 2 A 192.0.2.1"]
        await ask(zone, "seldom.example.com")
        await asyncio.gather(*zone.forwarder._waiting.values())
        assert texts(await ask(zone, "often.example.com")) == ["often.example.com. 30 A 192.0.2.2"]
        assert [str(query.question[0].name) for query in server.asked[2:]] == ["often.example.com."]
        assert zone.cache.prefetches == 1


async def test_names_of_a_stub_domain_are_asked_of_its_resolvers_alone() -> None:
    zone = Zone()
    async with resolver(answering("192.0.2.1")) as node, resolver(answering("192.0.2.2")) as stub:
        zone.forwarder.use([node.address], {b"\4corp\4test\0": [stub.address], b"\2in\4corp\4test\0": []})
        for name, last in (
            ("corp.test", 2),
            ("A.b.CORP.test", 2),
            ("xcorp.test", 1),
            ("corp.test.example", 1),
        ):
            assert texts(await ask(zone, name)) == [f"{name}. 30 A 192.0.2.{last}"]
        # the longest domain counts, also where it has nobody to ask
        assert (await ask(zone, "www.in.corp.test")).rcode() == dns.rcode.SERVFAIL
        zone.forwarder.use([node.address])
        assert texts(await ask(zone, "corp.test")) == ["corp.test. 30 A 192.0.2.1"]


def aliased(query: dns.message.Message) -> list[bytes]:
    made = dns.message.make_response(query)
    made.answer.append(dns.rrset.from_text(query.question[0].name, 300, "IN", "CNAME", "cdn.example.net."))
    made.answer.append(dns.rrset.from_text("cdn.example.net.", 60, "IN", "A", "192.0.2.7"))
    return [made.to_wire()]


async def test_an_external_name_is_followed_outside_and_inside_the_cluster() -> None:
    zone = Zone(
        external("outside", "www.example.com"),
        external("inside", "web.default.svc.cluster.local"),
        external("moved", "moved.example.com"),
        external("circle", "circle.default.svc.cluster.local"),
        service("web", "10.96.0.20"),
    )
    async with resolver(answering("192.0.2.1")) as server:
        zone.forwarder.use([server.address])
        at = "default.svc.cluster.local."
        assert texts(await ask(zone, f"outside.{at}")) == [
            f"outside.{at} 30 CNAME www.example.com.",
            "www.example.com. 30 A 192.0.2.1",
        ]
        assert texts(await ask(zone, f"inside.{at}")) == [f"inside.{at} 30 CNAME web.{at}", f"web.{at} 30 A 10.96.0.20"]
        assert (await ask(zone, f"circle.{at}")).rcode() == dns.rcode.SERVFAIL
        server.script = aliased
        assert texts(await ask(zone, f"moved.{at}")) == [
            "cdn.example.net. 30 A 192.0.2.7",
            f"moved.{at} 30 CNAME moved.example.com.",
            "moved.example.com. 30 CNAME cdn.example.net.",
        ]
        server.script = answering(rcode=3)
        gone = await ask(zone, f"outside.{at}", "AAAA")
        assert (gone.rcode(), texts(gone)) == (dns.rcode.NXDOMAIN, [f"outside.{at} 30 CNAME www.example.com."])
        assert [text.split()[:3] for text in texts(gone, "authority")] == [["test.", "30", "SOA"]]
        # a kept answer counts once among those that a change takes away
        for _ in range(3):
            await ask(zone, f"inside.{at}")
        assert [len(keys) for keys in zone.responder._dependents.values()] == [1]
        zone.forwarder.cache.clear()
        zone.forwarder.use([])
        lost = await ask(zone, f"outside.{at}", "AAAA")
        assert (lost.rcode(), texts(lost)) == (dns.rcode.SERVFAIL, [f"outside.{at} 30 CNAME www.example.com."])


async def test_a_resolver_that_asks_us_is_found_and_left_out() -> None:
    zone = Zone()

    def asks_us(query: dns.message.Message) -> list[bytes]:
        reply = zone.responder.respond(query.to_wire(), TCP)
        return [reply] if isinstance(reply, bytes) else []

    async with resolver(asks_us) as loop, resolver(answering("192.0.2.1")) as server:
        zone.forwarder.use([loop.address, server.address])
        await forward.find_loops(zone.forwarder, zone.responder.probes, probe)
        before = len(loop.asked)
        assert texts(await ask(zone, "www.example.com")) == ["www.example.com. 30 A 192.0.2.1"]
        assert len(loop.asked) == before
        # a silent one is not trusted again, one that answers by itself is
        for script, last in ((lambda _: [], 1), (answering("192.0.2.2"), 2)):
            loop.script = script
            await forward.find_loops(zone.forwarder, zone.responder.probes, probe)
            zone.cache.clear()
            assert texts(await ask(zone, "www.example.com")) == [f"www.example.com. 30 A 192.0.2.{last}"]
        assert not zone.responder.probes
