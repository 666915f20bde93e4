"""The metadata that a write to a subresource may change, where the body is the whole parent."""

from typing import Any

Object = dict[str, Any]

_CHANGEABLE = ("annotations", "finalizers", "labels", "ownerReferences")


def take_metadata(stored: Object, body: Object) -> None:
    """Labels, annotations, finalizers and owners of ``stored`` become those of ``body``, in place."""
    wanted, held = body.get("metadata") or {}, stored["metadata"]
    for field in _CHANGEABLE:
        if wanted.get(field):
            held[field] = wanted[field]
        else:
            held.pop(field, None)
