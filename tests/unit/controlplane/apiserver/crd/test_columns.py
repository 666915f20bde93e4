"""Cells of printer columns, selectable fields and replicas: what a definition's paths find in an object."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.crd.columns import Columns
from controlplane.apiserver.crd.definition import PrinterColumn, ScalePaths
from controlplane.apiserver.crd.scale import PathReplicas
from controlplane.apiserver.crd.selectable import SelectableFields

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def cell(kind: str, value: Any) -> Any:
    columns = Columns([PrinterColumn("X", kind, ".spec.x")])
    return columns.row({"metadata": {"name": "a"}, "spec": {"x": value}}, NOW)[1]


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("integer", 42, 42),
        ("integer", 3.14, 3),
        ("integer", 1e308, 2**63 - 1),  # JSON that we write has no larger ones
        ("integer", -1e20, -(2**63)),
        ("integer", True, None),
        ("integer", "42", None),
        ("number", 42, 42.0),
        ("number", 3.14, 3.14),
        ("number", "foo", None),
        ("boolean", True, True),
        ("boolean", 1, None),
        ("string", "foo", "foo"),
        ("string", 42, "42"),
        ("string", True, "true"),
        ("string", {"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ("date", "2026-01-01T12:00:00Z", "12h"),
        ("date", "2026-01-03T00:00:00Z", "<invalid>"),
        ("date", "yesterday", "<unknown>"),
        ("date", "9999-12-31T23:59:59-14:00", "<unknown>"),  # in no year that there is, seen from here
        ("date", "0001-01-01T00:00:00+14:00", "<unknown>"),
        ("date", 5, None),
        ("string", None, None),
    ],
)
def test_a_cell_has_the_type_of_its_column_or_is_empty(kind: str, value: Any, shown: Any) -> None:
    assert cell(kind, value) == shown


def test_without_columns_the_age_is_shown() -> None:
    columns = Columns(())
    assert [each.name for each in columns.definitions] == ["Name", "Age"]
    assert columns.row({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}, NOW) == ["a", "24h"]


def test_a_column_says_where_it_comes_from() -> None:
    columns = Columns([PrinterColumn("X", "string", ".spec.x"), PrinterColumn("Y", "string", ".spec.y", description="Why")])
    assert [each.description for each in columns.definitions[1:]] == [
        "Custom resource definition column (in JSONPath format): .spec.x",
        "Why",
    ]


def test_selectable_fields_are_words() -> None:
    fields = SelectableFields([".spec.color", ".spec.on", ".spec.size", ".spec.none"])
    assert fields.names == {"spec.color", "spec.on", "spec.size", "spec.none"}
    assert fields.of({"spec": {"color": "red", "on": True, "size": 3}}) == {
        "spec.color": "red",
        "spec.on": "true",
        "spec.size": "3",
        "spec.none": "",
    }


REPLICAS = PathReplicas(ScalePaths(".spec.pool.size", ".status.size", ".status.selector"))


def test_replicas_are_where_the_definition_says() -> None:
    obj = {"spec": {"pool": {"size": 3}}, "status": {"size": 2, "selector": "a=b"}}
    assert (REPLICAS.spec(obj), REPLICAS.status(obj), REPLICAS.selector(obj)) == (3, 2, "a=b")
    assert REPLICAS.set(obj, 5)["spec"] == {"pool": {"size": 5}}
    assert obj["spec"] == {"pool": {"size": 3}}
    assert REPLICAS.set({"metadata": {}}, 5) == {"metadata": {}, "spec": {"pool": {"size": 5}}}


def test_an_object_without_replicas_has_no_scale() -> None:
    with pytest.raises(StatusError, match=r'the spec replicas field ".spec.pool.size" does not exist'):
        REPLICAS.spec({"spec": {}})


@pytest.mark.parametrize(
    ("size", "why"),
    [(-1, "should be a non-negative integer"), (1 << 31, "should be less than or equal to 2147483647"), ("3", "expected int64")],
)
def test_replicas_are_small_numbers(size: Any, why: str) -> None:
    (problem,) = REPLICAS.problems({"spec": {"pool": {"size": size}}})
    assert problem.field == ".spec.pool.size"
    assert why in str(problem)
