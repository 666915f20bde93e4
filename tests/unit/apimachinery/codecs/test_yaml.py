"""YAML by Kubernetes' scalar rules, and its bounds."""

import contextlib
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.codecs import yaml
from apimachinery.errors import StatusError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("0644", 420),
        ("0x1F", 31),
        ("08", 8),
        ("1_000", 1000),
        ("3.0", 3),
        ("1e3", 1000),
        (".5", 0.5),
        ("-5", -5),
        ("1.2.3", "1.2.3"),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ('"5"', "5"),
        ("'yes'", "yes"),
        ("!!str 5", "5"),
        ('!!int "5"', 5),
        ("9223372036854775808", 9223372036854775808),
        ("- a\n- 1", ["a", 1]),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    found = yaml.decode(text.encode())
    assert found == value
    assert type(found) is type(value)


def test_keys_become_strings_and_merge_keys_merge() -> None:
    data = b"1: a\ntrue: b\nbase: &b {p: 1, q: 2}\nuse: {<<: *b, q: 3}\n"
    assert yaml.decode(data) == {"1": "a", "true": "b", "base": {"p": 1, "q": 2}, "use": {"p": 1, "q": 3}}


def test_only_the_first_document_counts() -> None:
    assert yaml.decode(b"a: 1\n---\nb: 2\n") == {"a": 1}


def test_repeated_keys_are_reported_and_the_last_wins() -> None:
    assert yaml.decode_strict(b"a: 1\nb: 2\na: 3\n") == ({"a": 3, "b": 2}, ['line 3: key "a" already set in map'])


def bomb() -> bytes:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip(string.ascii_lowercase, string.ascii_lowercase[1:9], strict=False):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: b: c", "yaml: line 1: mapping values are not allowed in this context"),
        (b"a: &x [*x]", "yaml: anchor value contains itself"),
        (b"a: .nan", "yaml: json: unsupported value: nan"),
        (b"[" * 300 + b"]" * 300, "yaml: exceeded max depth"),
        (bomb(), "yaml: document contains excessive aliasing"),
    ],
    ids=["syntax", "self-reference", "not a number", "depth", "bomb"],
)
def test_refusals(data: bytes, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        yaml.decode(data)
    assert (caught.value.code, caught.value.message) == (400, message)


@given(st.text(alphabet=string.printable, max_size=40))
def test_any_text_decodes_or_is_a_400(text: str) -> None:
    with contextlib.suppress(StatusError):
        yaml.decode(text.encode())


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a: b", 3),
        ("a: [b, c, d]", 6),
        ("- a\n- b\n", 3),
        ("a: &x [1]\nb: *x\n", 6),
        ("a: 'b, c: d, [e], {f}'", 3),
        ("a: |\n  b: c\n  - d, e\n", 3),
        ("a: b\n---\nc: [d, e, f, g]\n", 3),
    ],
)
def test_nodes_are_counted_before_they_are_made(text: str, nodes: int) -> None:
    data = text.encode()
    assert yaml.has_more_nodes(data, nodes - 1)
    assert not yaml.has_more_nodes(data, nodes)


def test_what_is_no_yaml_has_no_nodes() -> None:
    assert not yaml.has_more_nodes(b"a: {b, c, d: ]", 10)
