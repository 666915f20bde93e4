import random
from collections.abc import Callable

import pytest

from apimachinery import intstr, names

GOOD_AND_BAD = [
    (names.is_dns1123_label, ["a", "0", "my-name", "a" * 63], ["", "A", "-a", "a-", "a_b", "a.b", "a" * 64, "a\n"]),
    (names.is_dns1123_subdomain, ["a.b", "example.com"], ["", "a..b", ".a", "A", "a" * 254]),
    (names.is_dns1035_label, ["a", "a1"], ["", "1a", "a.b"]),
    (names.is_qualified_name, ["a", "A_b.c", "x.y/z"], ["", "/a", "a/", "a/b/c", "X/y", "a" * 64]),
    (names.is_label_value, ["", "a", "A.b_c"], ["-", "a b", "a" * 64]),
    (names.is_port_name, ["http", "a-1"], ["", "1", "a--b", "-a", "HTTP", "a" * 16]),
    (names.is_environment_name, ["A", "a b", "a.b"], ["", "a=b", "ä"]),
    (names.is_config_key, ["a", ".a", "a..b"], ["", ".", "..", "..a", "a/b"]),
    (names.is_percent, ["0%", "100%"], ["%", "5", "-5%"]),
    (names.is_path_segment, ["system:a", "A b"], [".", "..", "a/b", "a%b"]),
    (names.is_ip, ["10.0.0.1", "::1"], ["", "10.0.0", "010.0.0.1", "fe80::1%eth0"]),
    (names.is_cidr, ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"]),
    (names.is_wildcard_subdomain, ["*.a"], ["*", "a", "*.*.a"]),
    (names.is_header_name, ["X-A"], ["", "X A"]),
]


@pytest.mark.parametrize(("rule", "good", "bad"), GOOD_AND_BAD, ids=[rule.__name__ for rule, _, _ in GOOD_AND_BAD])
def test_rules(rule: Callable[[str], list[str]], good: list[str], bad: list[str]) -> None:
    assert [text for text in good if rule(text)] == []
    assert [text for text in bad if not rule(text)] == []


def test_texts_are_upstreams() -> None:
    assert names.is_dns1123_label("A") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
        "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert names.is_dns1123_label("a.b") == ["must not contain dots"]
    assert names.is_qualified_name("/a") == ["prefix part must be non-empty"]


def test_generated_names_fit_into_a_label() -> None:
    name = names.generate("x" * 80, random.Random(1).choice)
    assert len(name) == 63
    assert not names.is_dns1123_label(name)


@pytest.mark.parametrize(
    ("value", "up", "expected"), [(3, True, 3), ("25%", True, 3), ("25%", False, 2), ("0%", True, 0), ("100%", False, 10)]
)
def test_scaled(value: int | str, up: bool, expected: int) -> None:
    assert intstr.scaled(value, 10, round_up=up) == expected


def test_scaled_refuses_other_strings() -> None:
    with pytest.raises(ValueError, match="string is not a percentage"):
        intstr.scaled("ten", 10, round_up=True)
