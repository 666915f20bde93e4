"""What a failed answer means: the server's Status as a StatusError, one made up from the code when there is none, and
whether waiting helps. Pure; called by ``client.rest``, ``client.watch`` and ``client.reflector``.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from apimachinery.errors import StatusError, make_status

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def from_answer(method: str, path: str, code: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error of an answer of 400 or more, whether or not its body is a Status."""
    parsed = _parsed(body)
    if parsed is not None and parsed.get("kind") == "Status":
        parsed.setdefault("code", code)
        return StatusError(parsed, dict(headers))
    said = body.decode(errors="replace").strip()[:1024]
    text = f"the server answered {code} to {method} {path.partition('?')[0]}" + (f": {said}" if said else "")
    return StatusError(make_status(code, _REASONS.get(code, "Unknown"), text), dict(headers))


def _parsed(body: bytes) -> dict[str, Any] | None:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None


def retry_after(code: int, headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before asking again; None when the answer is final."""
    if code != 429 and code < 500:
        return None
    try:
        return max(float(headers.get("Retry-After", "")), 0.0)
    except ValueError:
        return None


def is_expired(error: BaseException) -> bool:
    """The resourceVersion or continue token is older than what the server still holds."""
    return isinstance(error, StatusError) and (error.code == 410 or error.reason in ("Expired", "Gone"))


def is_too_large_version(error: BaseException) -> bool:
    """The resourceVersion is newer than anything the server knows, as after its storage was replaced."""
    if not isinstance(error, StatusError) or error.reason != "Timeout":
        return False
    causes = (error.status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes) or (
        "Too large resource version" in error.message
    )


def is_overload(error: BaseException) -> bool:
    return isinstance(error, StatusError) and error.code == 429
