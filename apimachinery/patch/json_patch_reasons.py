"""Why a JSON patch does not apply, in the words of upstream's library (evanphx/json-patch v4). ``json_patch`` asks afterwards.

They reach users where a webhook's patch fails, and the logs.
"""

from typing import Any

import orjson

_MISSING = "missing value"


def why(original: Any, patch: list[dict[str, Any]], fallback: str) -> str:
    """``fallback`` is for what has no reason of its own here. ``patch`` is known to have the form of one."""
    import jsonpatch
    import jsonpointer

    document = orjson.loads(orjson.dumps(original))
    for operation in patch:
        try:
            document = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
        except (KeyError, IndexError, TypeError, ValueError, jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            return _reason(document, operation["op"], operation["path"]) or fallback
    return fallback


def _reason(document: Any, kind: str, path: str) -> str:
    parent, _, key = path.rpartition("/")
    holder, key = _at(document, parent), key.replace("~1", "/").replace("~0", "~")
    there = isinstance(holder, dict) and key in holder
    match kind:
        case "add" | "remove" if holder is None:
            return f'{kind} operation does not apply: doc is missing path: "{path}": {_MISSING}'
        case "remove" if isinstance(holder, dict) and not there:
            return f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: {_MISSING}"
        case "replace" if holder is None:
            return f"replace operation does not apply: doc is missing path: {path}: {_MISSING}"
        case "replace" if isinstance(holder, dict) and not there:
            return f"replace operation does not apply: doc is missing key: {path}: {_MISSING}"
        case "test" if there:
            return f"testing value {path} failed: test failed"
    return ""


def _at(document: Any, pointer: str) -> dict[str, Any] | list[Any] | None:
    """What holds things there, if anything does."""
    import jsonpointer

    try:
        found = jsonpointer.resolve_pointer(document, pointer)
    except (jsonpointer.JsonPointerException, KeyError, IndexError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict | list) else None
