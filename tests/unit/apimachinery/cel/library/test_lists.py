"""Lists, sets and comprehensions of two variables."""

from typing import Any

import pytest

from tests.unit.apimachinery.cel.library.expressions import does_not_compile, fails, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].isSorted()", True),
        ("[1, 3].sum() + [].sum()", 4),
        ("[1.5, 3.0].sum()", 4.5),
        ("[3, 1, 2].min() * 10 + [3, 1, 2].max()", 13),
        ("['b', 'a'].min()", "a"),
        ("[1, 2, 2, 3].indexOf(2) * 10 + [1, 2, 2, 3].lastIndexOf(2)", 12),
        ("[].indexOf('string')", -1),
        ("[dyn(1)].indexOf(dyn(true))", -1),
        ("'tacocat'.indexOf('o')", 3),
        ("x.sum()", 6),
        ("sets.contains([1, 2], [2]) && !sets.intersects([1], [2]) && sets.equivalent([1, 2, 2], [2, 1])", True),
        ("x.all(i, v, v == i + 1)", True),
        ("x.exists(i, v, i == 2 && v == 3) && x.existsOne(i, v, v > 2)", True),
        ("x.transformList(i, v, i * v)", [0, 2, 6]),
        ("x.transformList(i, v, v > 1, i * v)", [2, 6]),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", {"a": 2, "b": 3}),
        ("{'a': 1, 'b': 2}.transformMap(k, v, k != 'a', v + 1)", {"b": 3}),
        ("{'a': 'b'}.transformMapEntry(k, v, {v: k})", {"b": "a"}),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    assert value(expression, [1, 2, 3]) == expected


def test_what_has_no_value() -> None:
    fails("[].min() == 1", "min called on empty list")
    fails("x.isSorted()", "no such overload", [1, "a"])
    fails("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "insert failed: key 1 already exists")
    fails("'a'.find(x)", "Illegal regex: missing ): (", "(")


def test_types() -> None:
    does_not_compile("[[1]].isSorted()", "found no matching overload for 'isSorted' applied to '(list(list(int)))'")
    fails("['a'].sum() == 1", "no such overload")
    does_not_compile("sets.contains([1], ['a'])", "found no matching overload for 'sets.contains'")
