"""What is kept of resolvers' answers is bounded, whatever they say."""

from hypothesis import given
from hypothesis import strategies as st

from component.clock import FakeClock
from netproxy.dns import cache, wire
from netproxy.dns.cache import Cache


def answer(size: int, ttl: int = 300) -> wire.Encoded:
    tail = b"\xc0\x0c" + b"\0\1\0\1" + ttl.to_bytes(4, "big") + b"x" * size
    return wire.Encoded(wire.RA, (1, 0, 0), tail, ((6, len(tail)),))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60_000)), max_size=40))
def test_answers_take_so_many_bytes_and_no_more(puts: list[tuple[int, int]]) -> None:
    kept = Cache(8, 30, FakeClock())
    bound, cache.BYTES = cache.BYTES, 100_000
    try:
        for name, size in puts:
            kept.put(bytes([name]), answer(size))
            held = kept._held.values()
            assert kept._bytes == sum(len(each.answer.tail) for each in held) <= 100_000
            assert len(held) <= 8
            assert kept.get(bytes([name]))  # the newest is never what goes
    finally:
        cache.BYTES = bound


def test_an_answer_is_fresh_for_five_to_thirty_seconds() -> None:
    kept = Cache(8, 30, FakeClock())
    assert [kept.seconds(answer(4, ttl)) for ttl in (0, 4, 20, 86400, 0xFFFFFFFF)] == [5, 5, 20, 30, 30]
    assert [kept.seconds(wire.Encoded(code)) for code in (wire.SERVFAIL, wire.REFUSED, wire.NXDOMAIN)] == [5, 0, 0]
