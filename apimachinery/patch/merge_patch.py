"""RFC 7386: objects merge, null deletes, everything else replaces (``application/merge-patch+json``)."""

from typing import Any

from apimachinery import errors

Object = dict[str, Any]


def apply(original: Object, patch: Any) -> Object:
    """The patched object; ``original`` and ``patch`` are left alone but may be shared with the result.

    Raises a 400 StatusError unless ``patch`` is an object.
    """
    if not isinstance(patch, dict):
        raise errors.bad_request("Invalid JSON Patch")
    return _merge(original, patch)


def _merge(original: Any, patch: Object) -> Object:
    result = dict(original) if isinstance(original, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = value
    return result
