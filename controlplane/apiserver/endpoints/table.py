"""Answers as Table or PartialObjectMetadata(List), which clients ask for by ``Accept: application/json;as=Table;...``."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from apimachinery import errors
from controlplane.apiserver.registry import tables
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.storage.interface import Entry
from controlplane.apiserver.wire.call import Call

Object = dict[str, Any]

_META_V1 = "meta.k8s.io/v1"


def of_entries(
    strategy: Strategy, entries: Iterable[Entry], call: Call, revision: str, more: Object | None = None, headings: bool = True
) -> Object:
    """A Table with one row per entry. ``more`` adds list metadata; a watch sends the column headings only once."""
    include = _include(call)
    rows = [_row(strategy, entry, call.now, include) for entry in entries]
    return _envelope(strategy, rows, revision, more, headings)


def in_rows(strategy: Strategy, call: Call, revision: str, more: Object) -> tuple[Object, Callable[[Entry], Object]]:
    """A Table without rows, which come last in it, and what makes them."""
    include = _include(call)
    return _envelope(strategy, [], revision, more, True), lambda entry: _row(strategy, entry, call.now, include)


def _include(call: Call) -> str:
    include = call.query.get("includeObject", "Metadata")
    if include not in ("None", "Metadata", "Object"):
        why = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise errors.bad_request(f"Unable to convert to Table as requested: {why}")
    return include


def _row(strategy: Strategy, entry: Entry, now: datetime, include: str) -> Object:
    obj = entry.decode()
    return tables.row(strategy, obj, now, _shown(obj, include))


def _envelope(strategy: Strategy, rows: list[Object], revision: str, more: Object | None, headings: bool) -> Object:
    return {
        "kind": "Table",
        "apiVersion": _META_V1,
        "metadata": {"resourceVersion": revision, **(more or {})},
        "columnDefinitions": tables.column_definitions(strategy.columns) if headings else None,
        "rows": rows,
    }


def _shown(obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    return obj if include == "Object" else partial(obj)


def partial(obj: Object) -> Object:
    """The metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META_V1, "metadata": obj.get("metadata") or {}}
