"""Fields whose feature is off: what a client writes there is dropped, unless the stored object uses the feature already.

Called by ``store`` and ``update`` before the kind prepares an object. Source of the rule: the ``dropDisabledFields`` functions
of upstream's strategies; which fields they are is in ``kinds.gated_fields``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str, ...]
EACH = "*"  # every item of a list, every value of a map


def drop(paths: Sequence[Path], obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Remove from ``obj``, in place, every field of ``paths`` that ``old`` has nowhere. A path's items may be ``EACH``."""
    for path in paths:
        holders = [holder for holder in _holders(obj, path) if holder.get(path[-1]) is not None]
        if holders and not (old is not None and _used(old, path)):
            for holder in holders:
                del holder[path[-1]]


def _used(obj: dict[str, Any], path: Path) -> bool:
    return any(holder.get(path[-1]) is not None for holder in _holders(obj, path))


def _holders(value: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The objects that can have the last field of ``path``."""
    if len(path) == 1:
        if isinstance(value, dict):
            yield value
    elif path[0] == EACH:
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for item in items:
            yield from _holders(item, path[1:])
    elif isinstance(value, dict) and (inner := value.get(path[0])) is not None:
        yield from _holders(inner, path[1:])
