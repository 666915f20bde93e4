"""RFC 6902 (``application/json-patch+json``), on top of the ``jsonpatch`` package.

Upstream's additions: a bound on the number of operations and on what ``copy`` may add up to, and 422 with one fixed message for
a patch that does not apply. The package is imported on first use.
"""

from typing import Any

import orjson

from apimachinery import errors
from apimachinery.patch import json_patch_reasons

Object = dict[str, Any]

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024  # bytes, the bound on a request's body
REFUSED = "the server rejected our request due to an error in our request"
_FAILURES = (KeyError, IndexError, TypeError, ValueError)
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


class FailedTestError(errors.StatusError):
    """The 422 of a patch of which a ``test`` fails."""


def apply(original: Object, patch: Any) -> Object:
    """The patched object; ``original`` is left alone.

    Raises StatusError: 400 for what is no JSON patch, 413 for more than ``MAX_OPERATIONS``, 422 for one that does not apply
    (a path that is missing), FailedTestError for a ``test`` that fails.
    """
    import jsonpatch
    import jsonpointer

    _validate(patch)
    document = orjson.loads(orjson.dumps(original))
    step = _apply_counting if any(operation["op"] == "copy" for operation in patch) else _apply_at_once
    try:
        result = step(document, patch)
    except errors.StatusError:
        raise
    except jsonpatch.JsonPatchTestFailed as problem:
        raise _refused(json_patch_reasons.why(original, patch, str(problem)), FailedTestError) from None
    except (*_FAILURES, jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as problem:
        raise _refused(json_patch_reasons.why(original, patch, str(problem))) from None
    if not isinstance(result, dict):
        raise _refused("the result is not an object")
    return result


def _apply_at_once(document: Any, patch: list[Any]) -> Any:
    import jsonpatch

    return jsonpatch.JsonPatch(patch).apply(document, in_place=True)


def _apply_counting(document: Any, patch: list[Any]) -> Any:
    """One operation at a time, so that the size of each copy is known before it is made."""
    import jsonpatch
    import jsonpointer

    copied = 0
    for operation in patch:
        if operation["op"] == "copy":
            copied += len(orjson.dumps(jsonpointer.resolve_pointer(document, operation["from"])))
            if copied > MAX_COPIED:
                text = f"Unable to complete the copy, the accumulated size increase of copy is {copied}"
                text += f", exceeding the limit {MAX_COPIED}"
                raise errors.entity_too_large(text)
        document = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    return document


def _validate(patch: Any) -> None:
    if not isinstance(patch, list):
        raise errors.bad_request(f"json: cannot unmarshal {_said(patch)} into Go value of type jsonpatch.Patch")
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise errors.entity_too_large(text)
    for operation in patch:
        if not isinstance(operation, dict):
            raise errors.bad_request(f"json: cannot unmarshal {_said(operation)} into Go value of type jsonpatch.Operation")
        if operation.get("op") not in _OPERATIONS or not isinstance(operation.get("path"), str):
            raise _refused(f"Unexpected kind: {operation.get('op')}")


def _said(value: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def _refused(why: str, kind: type[errors.StatusError] = errors.StatusError) -> errors.StatusError:
    """422 with upstream's one message; ``why`` stays on the exception, for logs."""
    problem = kind(errors.make_status(422, "Invalid", REFUSED, {}))
    problem.add_note(why)
    return problem
