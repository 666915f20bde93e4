"""What ``transformMap`` and ``transformMapEntry`` become: a map that grows by an entry.

The evaluator's checker knows this function and its interpreter does not; :func:`renamed` lets it be this one.
"""

from typing import Any

from apimachinery.cel.library.declare import ANYTHING, Overload, T

_THEIRS, _OURS = b"cel.@mapInsert", b"k8s.@mapInsert"
_MAP = T("map", (ANYTHING, ANYTHING))


def renamed(compiled: bytes) -> bytes | None:
    """A compiled expression that calls this function; None for one that has no need of it. Both names are equally long."""
    return compiled.replace(_THEIRS, _OURS) if _THEIRS in compiled else None


def _with_entry(grown: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    return {**grown, key: value}


def _with_entries(grown: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key in more:
        if key in grown:
            raise ValueError(f"insert failed: key {key} already exists")
    return {**grown, **more}


OVERLOADS = (
    Overload("k8s.@mapInsert", "k8s_map_insert_key_value", (_MAP, ANYTHING, ANYTHING), _MAP, _with_entry),
    Overload("k8s.@mapInsert", "k8s_map_insert_map", (_MAP, _MAP), _MAP, _with_entries),
)
