"""Query strings are read as Go reads them."""

import pytest

from controlplane.apiserver.wire.query import pairs


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        ("watch&limit=", [("watch", ""), ("limit", "")]),
        ("labelSelector=app%3Dweb%2Ctier+in+(a)", [("labelSelector", "app=web,tier in (a)")]),
        ("labelSelector=app%%3Dnone&limit=5", [("limit", "5")]),
        ("a=1;b=2&c=%zz&d=%4&e=%41", [("e", "A")]),
    ],
)
def test_pairs(query: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(query) == expected
