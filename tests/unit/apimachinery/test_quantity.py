import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import quantity

CANONICAL = [
    # upstream: apimachinery pkg/api/resource documentation and its canonical form rules
    ("0", "0"),
    ("0Ki", "0"),
    ("1000m", "1"),
    ("1500m", "1500m"),
    ("0.5", "500m"),
    ("1.5Gi", "1536Mi"),
    ("1024", "1024"),
    ("1000", "1k"),
    ("1024Ki", "1Mi"),
    ("1023Mi", "1023Mi"),
    ("0.5Ki", "512"),
    ("0.1Mi", "104857600m"),
    ("100M", "100M"),
    ("12e6", "12e6"),
    ("12E3", "12e3"),
    ("1e-3", "1e-3"),
    ("-5", "-5"),
    ("+5", "5"),
    ("1.", "1"),
    (".5", "500m"),
    ("1n", "1n"),
    ("0.1n", "1n"),
    ("1E", "1E"),
    ("8Ei", "9223372036854775807"),
    (1, "1"),
    (0.25, "250m"),
    (1000.0, "1k"),
]


@pytest.mark.parametrize(("text", "expected"), CANONICAL, ids=[str(text) for text, _ in CANONICAL])
def test_canonical_text(text: str | int | float, expected: str) -> None:
    assert quantity.canonical(text) == expected


@pytest.mark.parametrize(
    "text", ["", ".", "1.1.M", "aoeu", "1i", "0.1mi", "1+1.0M", " 1", "1 ", "5 Gi", "--1", "1e", "0x10", "1Gi\n"]
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        quantity.parse(text)


def test_values_round_away_from_zero() -> None:
    assert quantity.parse("1500m").value() == 2
    assert quantity.parse("-1500m").value() == -2
    assert quantity.parse("100u").milli() == 1


def test_sum_keeps_the_format_of_its_first_non_zero_term() -> None:
    assert str(quantity.parse("1Gi") + quantity.parse("1Gi")) == "2Gi"
    assert str(quantity.ZERO + quantity.parse("1Gi")) == "1Gi"
    assert str(quantity.parse("1") - quantity.parse("300m")) == "700m"


def test_huge_exponents_cost_nothing() -> None:
    assert quantity.parse("1e9999").value() == 2**63 - 1
    assert quantity.parse("1e-9999").nanos == 1


SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"])
TEXTS = st.builds(
    lambda number, suffix: f"{number}{suffix}",
    st.decimals(min_value=-(10**6), max_value=10**6, places=3, allow_nan=False, allow_infinity=False).map(
        lambda d: format(d, "f")
    ),
    SUFFIXES,
)


@given(TEXTS)
def test_canonical_text_means_the_same_and_is_stable(text: str) -> None:
    first = quantity.parse(text)
    again = quantity.parse(str(first))
    assert again == first
    assert str(again) == str(first)


@given(TEXTS, TEXTS)
def test_order_and_sum_agree(left: str, right: str) -> None:
    a, b = quantity.parse(left), quantity.parse(right)
    assert (a < b) == (b - a > quantity.ZERO)
    assert a + b == b + a
    assert (a + b) - b == a
