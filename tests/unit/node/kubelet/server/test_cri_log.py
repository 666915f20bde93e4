from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet.server.cri_log import Converter, Options, fixed_timestamp, nanoseconds, parse_timestamp

LOG = (
    b"2026-11-30T11:29:38.5Z stdout F first\n"
    b"2026-11-30T11:29:39.123456789Z stderr F second\n"
    b"2026-11-30T11:29:40Z stdout P half \n"
    b"2026-11-30T11:29:41Z stdout F line\n"
    b"2026-11-30T11:29:42Z stdout F \n"
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(Options(), b"first\nsecond\nhalf line\n\n", id="all"),
        pytest.param(Options(stream="Stderr"), b"second\n", id="stderr"),
        pytest.param(Options(stream="Stdout"), b"first\nhalf line\n\n", id="stdout"),
        pytest.param(Options(limit=8), b"first\nse", id="limit"),
        pytest.param(Options(since=datetime(2026, 11, 30, 11, 29, 40, tzinfo=UTC)), b"half line\n\n", id="since"),
        pytest.param(Options(since=datetime(2027, 1, 1, tzinfo=UTC)), b"", id="since later"),
        pytest.param(
            Options(timestamps=True),
            b"2026-11-30T11:29:38.500000000Z first\n"
            b"2026-11-30T11:29:39.123456789Z second\n"
            b"2026-11-30T11:29:40.000000000Z half line\n"
            b"2026-11-30T11:29:42.000000000Z \n",
            id="timestamps",
        ),
    ],
)
def test_what_clients_see(options: Options, expected: bytes) -> None:
    assert Converter(options).convert(LOG) == expected


def test_a_partial_line_over_two_chunks_is_stamped_once() -> None:
    converter = Converter(Options(timestamps=True))
    first, second = LOG[: LOG.index(b"2026-11-30T11:29:41Z")], LOG[LOG.index(b"2026-11-30T11:29:41Z") :]
    assert converter.convert(first) + converter.convert(second) == Converter(Options(timestamps=True)).convert(LOG)


@given(st.lists(st.tuples(st.booleans(), st.from_regex(rb"[^\n]{0,30}", fullmatch=True))))
def test_text_comes_through_whatever_it_is(lines: list[tuple[bool, bytes]]) -> None:
    log = b"".join(b"2026-11-30T11:29:38Z stdout %s %s\n" % (b"P" if partial else b"F", text) for partial, text in lines)
    assert Converter(Options()).convert(log) == b"".join(text if partial else text + b"\n" for partial, text in lines)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        (b"1970-01-01T00:00:01Z", 10**9),
        (b"1970-01-01T00:00:01.000000001Z", 10**9 + 1),
        (b"1970-01-01T01:00:01.5+01:00", 1_500_000_000),
        (b"yesterday", None),
        (b"1970-01-01T00:00:01", None),
    ],
)
def test_timestamps(text: bytes, nanos: int | None) -> None:
    assert parse_timestamp(text) == nanos


def test_fixed_timestamps_keep_their_zone() -> None:
    assert fixed_timestamp(b"2026-11-30T11:29:38.12+01:00") == b"2026-11-30T11:29:38.120000000+01:00"
    assert fixed_timestamp(b"2026-11-30T11:29:38-05:00") == b"2026-11-30T11:29:38.000000000-05:00"
    assert nanoseconds(datetime(1970, 1, 2, tzinfo=UTC)) == 86400 * 10**9
