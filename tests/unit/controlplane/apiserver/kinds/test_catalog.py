from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery import schema
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.registry.strategy import Strategy

CATALOG = strategies(KindsConfig())
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

each_kind = pytest.mark.parametrize(
    "kind", CATALOG, ids=[f"{one.info.plural}.{one.info.gvk.group}.{one.info.gvk.version}" for one in CATALOG]
)


def test_no_kind_is_listed_twice() -> None:
    names = [one.info.gvr for one in CATALOG]
    assert len(set(names)) == len(names)
    short = [(word, one.info.gvk.group, one.info.gvk.version) for one in CATALOG for word in one.info.short_names]
    assert len(set(short)) == len(short)


@each_kind
def test_kind_is_in_the_schema(kind: Strategy) -> None:
    assert schema.load().of(kind.info.gvk) is not None


def minimal(kind: Strategy) -> dict[str, Any]:
    metadata = {"name": "x", "uid": "u", "creationTimestamp": "2026-11-30T11:59:00Z"}
    if kind.info.namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": kind.info.gvk.api_version, "kind": kind.info.gvk.kind, "metadata": metadata}


@each_kind
def test_row_has_a_cell_for_each_column_even_of_an_empty_object(kind: Strategy) -> None:
    assert len(kind.row(minimal(kind), NOW)) == len(kind.columns)


@each_kind
def test_defaulting_twice_is_defaulting_once(kind: Strategy) -> None:
    once, twice = minimal(kind), minimal(kind)
    kind.default(once)
    kind.default(twice)
    kind.default(twice)
    assert once == twice


@each_kind
def test_selectable_fields_are_the_declared_ones(kind: Strategy) -> None:
    extracted = set(kind.selectable_fields(minimal(kind)))
    offered = set(kind.selectable_names) | set(kind.selectable_aliases.values())
    # Of a kind that is stored as another, not every field of the stored form has a name here.
    assert extracted == offered if kind.stored_as is None else extracted >= offered
