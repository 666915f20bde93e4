"""JSON bodies: Go's words for bad ones, duplicate keys, bounds, and the order of what is written."""

import pytest

from apimachinery.codecs import json
from apimachinery.errors import StatusError


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":1', "unexpected end of JSON input"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"1 2", "invalid character '2' after top-level value"),
        (b'{"a":"\n"}', "invalid character '\\n' in string literal"),
        (b'{"a":"\\x"}', "invalid character 'x' in string escape code"),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"[" * 20_000, "exceeded max depth"),
        (b"[" * 300 + b"]" * 300, "exceeded max depth"),
    ],
)
def test_bad_json_is_a_400_in_gos_words(data: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        json.decode(data)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_deep_but_allowed() -> None:
    assert json.decode(b"[" * 249 + b"]" * 249)


def test_duplicate_keys_are_named_by_path() -> None:
    data = b'{"a":1,"spec":{"b":[{"c":1,"c":2,"c":3},{"c":1}],"d":1,"d":2},"a":2}'
    assert json.duplicate_keys(data) == [
        'duplicate field "a"',
        'duplicate field "spec.d"',
        'duplicate field "spec.b[0].c"',
    ]
    assert json.duplicate_keys(b'{"a":{"b":1},"c":{"b":1}}') == []


def test_the_type_is_written_first() -> None:
    obj = {"status": {}, "metadata": {"name": "x"}, "kind": "Pod", "apiVersion": "v1"}
    assert json.encode(obj) == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"status":{}}'
    assert json.encode([1]) == b"[1]"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [('{"a":1}', 2), ("[1,2,3]", 3), ('{"a":{"b":[]},"c":"d"}', 7), ('["a,b:[c]{\\",d}",","]', 2), ("7", 0)],
)
def test_nodes_are_counted_before_they_are_made(text: str, nodes: int) -> None:
    """About: what matters is that text inside of strings does not count and that everything else does."""
    assert not json.has_more_nodes(text.encode(), nodes)
    assert nodes == 0 or json.has_more_nodes(text.encode(), nodes - 1)
