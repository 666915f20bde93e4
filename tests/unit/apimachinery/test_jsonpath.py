"""Paths of columns and selectable fields: what they find, what they do not, and what no path is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.jsonpath import JSONPath, PathError

OBJECT: dict[str, Any] = {
    "metadata": {"name": "one", "labels": {"example.com/tier": "front"}},
    "spec": {"replicas": 3, "zero": 0, "none": None, "ports": [{"port": 80, "name": "http"}, {"port": 443}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("$.spec.replicas", [3]),
        ("spec.replicas", [3]),
        (".spec.zero", [0]),
        (".spec.none", []),
        (".spec.absent.deeper", []),
        (".metadata.labels['example.com/tier']", ["front"]),
        (r".metadata.labels.example\.com/tier", ["front"]),
        (".spec.ports[0].port", [80]),
        (".spec.ports[-1].port", [443]),
        (".spec.ports[*].port", [80, 443]),
        (".spec.ports[0:1].port", [80]),
        (".spec.ports[0,1].port", [80, 443]),
        (".spec['replicas','zero']", [3, 0]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].status", ["False"]),
        (".spec.ports[?(@.port > 100)].port", [443]),
        (".spec.ports[?(@.name)].port", [80]),
        ('.status.conditions[?(@.type==">=")].status', []),
        ("..port", [80, 443]),
    ],
)
def test_finds(path: str, found: list[Any]) -> None:
    assert JSONPath(path).find(OBJECT) == found


@pytest.mark.parametrize("path", [".spec.ports[5]", ".spec[0]", ".metadata[?(@.x==1)]", ".spec.ports[?(@.port=='80')]"])
def test_does_not_fit(path: str) -> None:
    with pytest.raises(PathError):
        JSONPath(path).find(OBJECT)


@pytest.mark.parametrize(
    "path", [".spec[", ".spec['a]", ".spec[a]", ".spec]", ".spec[?(@.x==y)]", ".spec[::0]", ".a b", "." * 5000]
)
def test_is_no_path(path: str) -> None:
    with pytest.raises(PathError):
        JSONPath(path)


@given(st.lists(st.text("abcXYZ-_/", min_size=1, max_size=5), min_size=1, max_size=5), st.integers())
def test_a_path_of_names_leads_where_they_do(names: list[str], leaf: int) -> None:
    value: Any = leaf
    for name in reversed(names):
        value = {name: value}
    assert JSONPath("".join(f".{name}" for name in names)).find(value) == [leaf]
    assert JSONPath("".join(f"['{name}']" for name in names)).find(value) == [leaf]


@given(st.text(".[]'\"*?@()=:,a0 ", max_size=20))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        JSONPath(text).find(OBJECT)
    except PathError:
        return
