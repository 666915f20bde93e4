"""Answers as Table or PartialObjectMetadata(List), which clients ask for by ``Accept: application/json;as=Table;...``."""

from collections.abc import Iterable
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
    include = call.query.get("includeObject", "Metadata")
    if include not in ("None", "Metadata", "Object"):
        raise errors.bad_request(f'unrecognized includeObject value: "{include}"')
    now = call.now
    rows = []
    for entry in entries:
        obj = entry.decode()
        rows.append(tables.row(strategy, obj, now, _shown(obj, include)))
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


def partial_list(entries: Iterable[Entry], metadata: Object) -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": _META_V1,
        "metadata": metadata,
        "items": [partial(entry.decode()) for entry in entries],
    }
