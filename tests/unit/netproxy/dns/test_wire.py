"""Whatever arrives, the server answers in protocol or not at all."""

import ipaddress
import struct

import dns.exception
import dns.message
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netproxy.dns import facts, wire
from tests.support.dns import TCP, UDP, Zone, endpoint_slice, service

NAME = "web.default.svc.cluster.local"
ZONE = Zone(service("web", "10.96.0.20"), service("many"), endpoint_slice("many", *(f"10.244.1.{last}" for last in range(100))))
LABEL = st.binary(min_size=1, max_size=63)
NAMES = st.lists(LABEL, max_size=4).map(lambda labels: dns.name.Name([*labels, b""]))


def sent(name: str = NAME, kind: str = "A", **options: object) -> bytes:
    return dns.message.make_query(name, kind, **options).to_wire()  # type: ignore[arg-type]


def reply(data: bytes) -> bytes:
    """For what needs no resolver."""
    given_back = ZONE.responder.respond(data, UDP)
    if not isinstance(given_back, bytes):
        given_back.close()
        return b""
    return given_back


@given(st.binary(max_size=300))
def test_noise_is_answered_by_less_than_it_costs_to_send(data: bytes) -> None:
    answer = reply(data)
    assert len(answer) <= max(12, len(data), wire.SMALLEST)
    if answer:
        assert answer[:2] == data[:2]
        assert answer[2] & 0x80


@given(st.data())
def test_a_damaged_query_gets_a_whole_answer_or_none(data: st.DataObject) -> None:
    query = bytearray(sent(use_edns=0))
    for _ in range(data.draw(st.integers(1, 4))):
        query[data.draw(st.integers(0, len(query) - 1))] = data.draw(st.integers(0, 255))
    answer = reply(bytes(query[: data.draw(st.integers(0, len(query)))]))
    if answer:
        dns.message.from_wire(answer)


@given(NAMES, st.integers(1, 65535), st.booleans(), st.integers(0, 65535))
def test_questions_are_read_as_the_library_reads_them(name: dns.name.Name, kind: int, edns: bool, size: int) -> None:
    message = dns.message.make_query(name, kind, use_edns=0 if edns else -1, payload=size)
    query = wire.parse(message.to_wire())
    assert (query.id, query.type, query.edns) == (message.id, kind, edns)
    assert query.size == (min(max(size, 512), wire.PAYLOAD) if edns else 512)
    assert wire.name_of(query.key) == name
    assert [label.encode("latin-1") for label in wire.labels_of(query.key)] == [each.lower() for each in name.labels[:-1]]


@pytest.mark.parametrize(
    ("data", "rcode"),
    [
        (sent()[:4] + b"\0\0" + sent()[6:], "FORMERR"),
        (sent()[:4] + b"\0\2" + sent()[6:] + sent()[12:], "FORMERR"),
        (sent()[:-5], "FORMERR"),
        (sent()[:12] + b"\xc0\x0c" + sent()[-4:], "FORMERR"),  # a name that refers to itself
        (sent()[:12] + b"".join(b"\x3f" + b"a" * 63 for _ in range(4)) + b"\0\0\1\0\1", "FORMERR"),  # a name of 257 bytes
        (sent()[:11] + b"\1" + sent()[12:] + b"\0\0\x29\xff", "FORMERR"),
        (sent()[:2] + b"\x28\0" + sent()[4:], "NOTIMP"),  # an update
        (sent(rdclass="CH"), "REFUSED"),
        (sent(rdclass="ANY"), "REFUSED"),
        (sent(kind="AXFR"), "REFUSED"),
        (sent(kind="IXFR")[:-4] + b"\0\xfb\0\1", "REFUSED"),
        (sent(use_edns=1), "BADVERS"),
        (sent(use_edns=0), "NOERROR"),
    ],
)
def test_what_is_not_served_is_refused_by_its_code(data: bytes, rcode: str) -> None:
    answer = dns.message.from_wire(reply(data))
    assert dns.rcode.to_text(answer.rcode()) == rcode
    assert answer.id == struct.unpack("!H", data[:2])[0]


def test_an_answer_is_never_answered() -> None:
    assert reply(dns.message.make_response(dns.message.make_query(NAME, "A")).to_wire()) == b""
    assert reply(b"\0" * 11) == b""


def test_only_those_may_ask_who_are_allowed() -> None:
    zone = Zone(service("web", "10.96.0.20"), allowed=(ipaddress.ip_network("10.244.0.0/16"),))
    assert zone.ask(NAME).answer
    for _ in range(2):
        stranger = zone.ask(NAME, door=type(TCP)("udp", "203.0.113.7"))
        assert (dns.rcode.to_text(stranger.rcode()), stranger.answer) == ("REFUSED", [])
    zone.responder.admit(frozenset({"203.0.113.7"}))
    assert zone.ask(NAME, door=type(TCP)("udp", "203.0.113.7")).answer
    zone.responder.admit(frozenset())
    assert not zone.ask(NAME, door=type(TCP)("udp", "203.0.113.7")).answer


def test_the_other_nodes_servers_are_known_by_their_slices() -> None:
    endpoints = [{"addresses": ["192.0.2.10"]}, {"addresses": ["192.0.2.11"], "conditions": {"ready": False}}]
    found = [facts.trimmed_slice(endpoint_slice("kube-dns", *endpoints, namespace=each)) for each in ("kube-system", "default")]
    assert [each[facts.FELLOWS] for each in found] == [("192.0.2.10", "192.0.2.11"), ()]


@given(st.integers(12, 3000), st.booleans())
def test_a_cut_answer_is_whole_and_says_so(limit: int, edns: bool) -> None:
    message = dns.message.make_query("many.default.svc.cluster.local", "A", use_edns=0 if edns else -1)
    query = wire.parse(message.to_wire())
    whole = ZONE.responder.respond(message.to_wire(), TCP)
    assert isinstance(whole, bytes)
    encoded = next(each for key, each in ZONE.responder._kept.items() if key == query.key)
    least = 12 + len(query.question) + 11 * edns
    answer = wire.reply(query, encoded, max(limit, least))
    assert len(answer) <= max(limit, least)
    decoded = dns.message.from_wire(answer)
    count = len(decoded.answer[0]) if decoded.answer else 0
    assert bool(decoded.flags & dns.flags.TC) == (count < 100)
    # as many as fit: sixteen bytes each
    assert count == min(100, (max(limit, least) - least) // 16)


def test_a_question_with_much_beside_it_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one client could keep the server from answering anybody."""
    monkeypatch.setattr(dns.message, "from_wire", None)
    name = b"\1a" * 120 + b"\0"
    record = b"\xc0\x0c" + struct.pack("!HHIH", 16, 1, 0, 1) + b"\0"
    for count, extra in ((5000, record * 5000), (2, record + bytes(5000))):
        data = struct.pack("!HHHHHH", 1, 0x100, 1, 0, 0, count) + name + struct.pack("!HH", wire.A, wire.IN) + extra
        with pytest.raises(wire.Unanswerable) as refused:
            wire.parse(data)
        assert refused.value.reply[3] & 15 == wire.FORMERR


def test_questions_without_an_answer_push_no_other_out() -> None:
    zone = Zone(service("web", "10.96.0.20"))
    for kind in range(1000, 1100):
        for name in ("20.0.96.10.in-addr.arpa", NAME):
            zone.responder.respond(sent(name, f"TYPE{kind}"), UDP)
    assert not zone.responder._kept
