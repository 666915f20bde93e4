"""``additionalPrinterColumns``: the columns of ``kubectl get`` and their cells (upstream's ``tableconvertor``)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from apimachinery.jsonpath import JSONPath, PathError
from apimachinery.times import parse_time
from controlplane.apiserver.crd.definition import PrinterColumn
from controlplane.apiserver.crd.structural.go import INT64_MAX, INT64_MIN
from controlplane.apiserver.kinds.shared.columns import AGE, NAME
from controlplane.apiserver.registry.printing import human_duration
from controlplane.apiserver.registry.strategy import Column

Object = dict[str, Any]

_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp", description=AGE.description)
_LARGE = 1e21  # from where Go writes numbers with an exponent


class Columns:
    """The name, then what the definition asks for; the age when it asks for nothing."""

    def __init__(self, columns: Sequence[PrinterColumn]) -> None:
        self._columns = tuple(columns) or (_AGE,)
        self._paths: list[JSONPath | None] | None = None  # compiled when the first row is made
        self.definitions = (NAME, *(_heading(each) for each in self._columns))

    def row(self, obj: Object, now: datetime) -> list[Any]:
        if self._paths is None:
            self._paths = [_compiled(each.path) for each in self._columns]
        cells = [_cell(column.type, path, obj, now) for column, path in zip(self._columns, self._paths, strict=True)]
        return [obj["metadata"].get("name") or "", *cells]


def _compiled(path: str) -> JSONPath | None:
    """None for a path that an older server took and we cannot read: an empty column."""
    try:
        return JSONPath(path)
    except PathError:
        return None


def _heading(each: PrinterColumn) -> Column:
    described = each.description or f"Custom resource definition column (in JSONPath format): {each.path}"
    return Column(each.name, each.type, each.format, described, each.priority)


def _cell(kind: str, path: JSONPath | None, obj: Object, now: datetime) -> Any:
    """The first value that the path finds, as the column's type wants it; None for nothing or another type."""
    if path is None:
        return None
    try:
        found = path.find(obj)
    except PathError:
        return None
    if not found:
        return None
    value = found[0]
    if kind == "string":
        return _text(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        return _since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(INT64_MIN, min(int(value), INT64_MAX)) if kind == "integer" else float(value)


def _text(value: Any) -> str:
    """A value as Go's templates print it; what has parts is JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGE:
        return str(int(value))
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _since(text: str, now: datetime) -> str:
    try:
        return human_duration((now - parse_time(text)).total_seconds())
    except ValueError:
        return "<unknown>"
