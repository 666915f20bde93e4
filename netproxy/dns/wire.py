"""DNS messages as bytes: questions in, answers out. Pure. ``responder`` reads with it, ``answers`` and ``forward`` encode.

A question of the usual shape is read here in one pass, and addresses and denials are written here; everything else goes through
dnspython, which takes a hundred times as long. An answer is kept without its header and question: a reply is a header, the
question as it was sent (so that the case of its letters returns, which resolvers use against forgers) and that rest.
"""

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import randrange
from typing import NamedTuple

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH, BADVERS = 0, 1, 2, 3, 4, 5, 9, 16
A, SOA, CNAME, PTR, HINFO, AAAA, SRV, TXT, NS = 1, 6, 5, 12, 13, 28, 33, 16, 2
IXFR, AXFR, IN = 251, 252, 1
QR, AA, TC, RD, RA, AD, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0020, 0x0010
TYPES = {
    kind: dns.rdatatype.to_text(dns.rdatatype.RdataType(kind)) for kind in (1, 28, 15, 6, 5, 12, 16, 2, 33, 43, 48, 46, 47, 65)
}
"""Types that metrics tell apart."""
OPT = 41
PAYLOAD = 1232
"""Bytes of the largest UDP message that we send and ask for: it passes every network unfragmented."""
SMALLEST, LARGEST = 512, 65535
_MOST_ADDITIONAL, _LONGEST_ODD = 2, 4096
"""Records beside a question (options and a signature), and bytes of one that is not of the usual shape: dnspython would take a
second for 64 kB of them, and meanwhile nobody else is answered."""

_HEADER = struct.Struct("!HHHHHH")
_TWO = struct.Struct("!HH")
_FOUR = struct.Struct("!I")
_RECORD = struct.Struct("!HHIH")
_OWN_NAME = b"\xc0\x0c"
"""Refers to the name of the question."""
_MOST = {A: 4000, AAAA: 2300}
_OURS = {do: b"\0" + _RECORD.pack(OPT, PAYLOAD, 0x8000 if do else 0, 0) for do in (False, True)}


class Query(NamedTuple):
    """One question. ``key`` is the question with a lower-case name; ``size`` what the client takes in a UDP message,
    ``length`` what it sent, in bytes."""

    id: int
    flags: int
    question: bytes
    key: bytes
    type: int
    size: int = SMALLEST
    edns: bool = False
    do: bool = False
    length: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer without header and question. ``marks`` gives for each record where its TTL is and where it ends, both in
    ``tail``. ``shuffled`` are address records that may come in any order; the tail is then made of them."""

    flags: int
    counts: tuple[int, int, int] = (0, 0, 0)
    tail: bytes = b""
    marks: tuple[tuple[int, int], ...] = ()
    shuffled: tuple[bytes, ...] = ()

    @property
    def rcode(self) -> int:
        return self.flags & 15

    @property
    def least_ttl(self) -> int:
        """Seconds; 0 for an answer without records."""
        return min((_FOUR.unpack_from(self.tail, ttl)[0] for ttl, _ in self.marks), default=0)


class Unanswerable(Exception):  # noqa: N818 - an answer, not a failure of ours
    """``reply`` is what the sender gets; empty for nothing at all."""

    def __init__(self, reply: bytes = b"") -> None:
        self.reply = reply


def options(do: bool) -> bytes:
    """Our OPT record."""
    return _OURS[do]


def rcode_text(rcode: int) -> str:
    return dns.rcode.to_text(dns.rcode.Rcode(rcode))


def parse(data: bytes) -> Query:
    """Read a question. Raises Unanswerable for anything else."""
    if len(data) < 12:
        raise Unanswerable
    ident, flags, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    if flags & QR:
        raise Unanswerable  # answering an answer could go on for ever
    if flags & 0x7800:
        raise Unanswerable(_bare(ident, flags, NOTIMP))
    if questions != 1 or answers or authorities:
        raise Unanswerable(_bare(ident, flags, FORMERR))
    end = _end_of_name(data)
    if end == 0 or end + 4 > len(data):
        raise Unanswerable(_bare(ident, flags, FORMERR))
    kind, _ = _TWO.unpack_from(data, end)
    question = data[12 : end + 4]
    query = Query(ident, flags, question, data[12:end].lower() + data[end : end + 4], kind, length=len(data))
    if not additional:
        return query
    return _with_options(query, data, end + 4, additional)


def _end_of_name(data: bytes) -> int:
    """Where the question's name ends; 0 for none. Compression has no place there."""
    position, length = 12, len(data)
    while position < length:
        label = data[position]
        position += label + 1
        if label == 0:
            return position
        if label > 63 or position > 12 + 254:
            return 0
    return 0


def _with_options(query: Query, data: bytes, position: int, additional: int) -> Query:
    if additional == 1 and len(data) >= position + 11 and data[position] == 0:
        kind, size, extended, length = _RECORD.unpack_from(data, position + 1)
        if kind == OPT and position + 11 + length <= len(data):
            return _edns(query, size, extended)
    if additional > _MOST_ADDITIONAL or len(data) > _LONGEST_ODD:
        raise Unanswerable(failure(query, FORMERR))
    try:
        message = dns.message.from_wire(data, ignore_trailing=True)
    except dns.message.UnknownTSIGKey:
        raise Unanswerable(failure(query, NOTAUTH)) from None
    except (dns.exception.DNSException, ValueError, struct.error):
        raise Unanswerable(failure(query, FORMERR)) from None
    return query if message.edns < 0 else _edns(query, message.payload, message.ednsflags)


def _edns(query: Query, size: int, extended: int) -> Query:
    do = bool(extended & 0x8000)
    ident, flags, question, key, kind, *_, length = query
    # _replace would take three times as long
    query = Query(ident, flags, question, key, kind, min(max(size, SMALLEST), PAYLOAD), True, do, length)
    if extended & 0xFF0000:
        # the upper bits of the code are in the OPT record
        refusal = b"\0" + _RECORD.pack(OPT, PAYLOAD, (BADVERS >> 4) << 24, 0)
        head = _HEADER.pack(query.id, QR | (query.flags & (RD | CD)), 1, 0, 0, 1)
        raise Unanswerable(head + query.question + refusal)
    return query


def _bare(ident: int, flags: int, rcode: int) -> bytes:
    return _HEADER.pack(ident, QR | (flags & 0x7800) | (flags & RD) | rcode, 0, 0, 0, 0)


def labels_of(key: bytes) -> tuple[str, ...]:
    """Labels of a question's name, without the root; bytes beyond ASCII stay what they are."""
    labels, position = [], 0
    while length := key[position]:
        labels.append(key[position + 1 : position + 1 + length].decode("latin-1"))
        position += length + 1
    return tuple(labels)


def name_of(key: bytes) -> dns.name.Name:
    """The question's name for dnspython."""
    return dns.name.Name([*(label.encode("latin-1") for label in labels_of(key)), b""])


def failure(query: Query, rcode: int) -> bytes:
    return reply(query, Encoded(RA | rcode), SMALLEST)


def reply(query: Query, answer: Encoded, limit: int, age: int = 0) -> bytes:
    """The message for one client: at most ``limit`` bytes, truncated where that is too little; TTLs are less by ``age``."""
    tail, counts = answer.tail, answer.counts
    if answer.shuffled:
        first = randrange(len(answer.shuffled))  # noqa: S311 - spreads load, guards nothing
        tail = b"".join(answer.shuffled[first:] + answer.shuffled[:first])
    elif age:
        tail = _aged(answer, age)
    flags = QR | answer.flags | (query.flags & (RD | CD))
    extra = _OURS[query.do] if query.edns else b""
    room = limit - 12 - len(query.question) - len(extra)
    if len(tail) > room:
        kept = sum(1 for _, end in answer.marks if end <= room)
        tail = tail[: answer.marks[kept - 1][1] if kept else 0]
        firm = counts[0] + counts[1]
        flags |= TC if kept < firm else 0
        counts = (min(kept, counts[0]), min(max(kept - counts[0], 0), counts[1]), max(kept - firm, 0))
    head = _HEADER.pack(query.id, flags, 1, counts[0], counts[1], counts[2] + query.edns)
    return head + query.question + tail + extra


def _aged(answer: Encoded, age: int) -> bytes:
    tail = bytearray(answer.tail)
    for ttl, _ in answer.marks:
        left = _FOUR.unpack_from(tail, ttl)[0] - age
        _FOUR.pack_into(tail, ttl, max(left, 0))
    return bytes(tail)


def encode(message: dns.message.Message, flags: int, *, most: int = 0) -> Encoded:
    """Encode the sections of a message with one question; with ``most``, TTLs are cut to that many seconds."""
    message.flags = dns.flags.Flag(0)
    data = message.to_wire(max_size=LARGEST, prefer_truncation=True)
    flags |= TC if message.flags & dns.flags.TC or data[2] & (TC >> 8) else 0
    _, _, _, *counts = _HEADER.unpack_from(data)
    start = _end_of_name(data) + 4
    tail = bytearray(data[start:])
    marks, position = [], 0
    for _ in range(sum(counts)):
        position = _after_name(tail, position)
        _, _, ttl, length = _RECORD.unpack_from(tail, position)
        if most:
            _FOUR.pack_into(tail, position + 4, min(ttl, most))
        marks.append((position + 4, position + 10 + length))
        position += 10 + length
    return Encoded(flags, (counts[0], counts[1], counts[2]), bytes(tail), tuple(marks))


def addresses(flags: int, kind: int, ttl: int, texts: Sequence[str]) -> Encoded:
    """An answer with address records of the question's name, in any order. More than a message can hold are left out."""
    packed = [ipaddress.ip_address(text).packed for text in texts[: _MOST[kind]]]
    pieces = tuple(_OWN_NAME + _RECORD.pack(kind, IN, ttl, len(data)) + data for data in packed)
    size = len(pieces[0])
    marks = tuple((start + 6, start + size) for start in range(0, size * len(pieces), size))
    return Encoded(flags, (len(pieces), 0, 0), b"".join(pieces), marks, pieces if len(pieces) > 1 else ())


def denial(flags: int, soa: dns.rrset.RRset) -> Encoded:
    """An answer without records but the zone's SOA, written without references, so that it follows any question."""
    owner, data = soa.name.to_wire() or b"", soa[0].to_wire() or b""
    head = owner + _RECORD.pack(SOA, IN, soa.ttl, len(data))
    return Encoded(flags, (0, 1, 0), head + data, ((len(owner) + 4, len(head) + len(data)),))


def _after_name(data: bytearray, position: int) -> int:
    while length := data[position]:
        if length >= 0xC0:
            return position + 2
        position += length + 1
    return position + 1


def message_of(query: Query, answer: Encoded, age: int = 0) -> dns.message.Message:
    """Decode an answer of ours again, where its records become part of another one."""
    plain = query._replace(edns=False)
    return dns.message.from_wire(reply(plain, answer, LARGEST, age))
