"""API errors as values: each maker returns a StatusError whose ``status`` is the ``v1.Status`` that clients receive.

Raised anywhere on the request's road and written to the wire by ``controlplane.apiserver.endpoints``; the client room
turns a received ``Status`` back into a StatusError. Codes, reasons and message texts are upstream's
(k8s.io/apimachinery ``pkg/api/errors``), because clients match on them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from apimachinery.fieldpath import FieldError


class StatusError(Exception):
    """An API failure. ``status`` is a complete ``v1.Status`` object."""

    def __init__(self, status: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.headers = headers or {}

    @property
    def code(self) -> int:
        return int(self.status.get("code", 500))

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.status.get("message", ""))


def make_status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A failure ``v1.Status`` in upstream's field order."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        status["reason"] = reason
    if details is not None:  # an empty one is what upstream sends where it knows no more
        status["details"] = details
    status["code"] = code
    return status


def _details(name: str = "", group: str = "", kind: str = "", **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in {**details, **more}.items() if value}


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> StatusError:
    return StatusError(make_status(400, "BadRequest", message))


def unauthorized(message: str = "Unauthorized") -> StatusError:
    return StatusError(make_status(401, "Unauthorized", message))


def forbidden(message: str, *, name: str = "", group: str = "", resource: str = "") -> StatusError:
    """``message`` is the whole sentence; authorization and admission each have their own form of it."""
    return StatusError(make_status(403, "Forbidden", message, _details(name, group, resource)))


def not_found(resource: str, name: str, group: str = "") -> StatusError:
    text = f'{_qualified(resource, group)} "{name}" not found'
    return StatusError(make_status(404, "NotFound", text, _details(name, group, resource)))


def path_not_found() -> StatusError:
    """For URLs that name no resource this server has."""
    return StatusError(make_status(404, "NotFound", "the server could not find the requested resource", {}))


def method_not_allowed() -> StatusError:
    """For URLs that name something which does not take this method."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(make_status(405, "MethodNotAllowed", text, {}))


def method_not_supported(resource: str, verb: str, group: str = "") -> StatusError:
    text = f"{verb} is not supported on resources of kind {_qualified(resource, group)!r}".replace("'", '"')
    return StatusError(make_status(405, "MethodNotAllowed", text, _details("", group, resource)))


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    text = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(make_status(406, "NotAcceptable", text))


def already_exists(resource: str, name: str, group: str = "", *, generated: bool = False, leaving: bool = False) -> StatusError:
    """``generated``: from a ``generateName``, so another try may have more luck; ``leaving``: what is there is being deleted."""
    text = f'{_qualified(resource, group)} "{name}" already exists'
    if generated:
        text += ", the server was not able to generate a unique name for the object"
    if leaving:
        text = f"object is being deleted: {text}"
    details = _details(name, group, resource, **({"retryAfterSeconds": 1} if generated else {}))
    return StatusError(make_status(409, "AlreadyExists", text, details), {"Retry-After": "1"} if generated else None)


def is_another(error: StatusError) -> bool:
    """A write or deletion that named a uid met another object of the same name: a 409 for a PUT or DELETE, for a patch a 422."""
    if error.code == 422:
        causes = (error.status.get("details") or {}).get("causes") or ()
        return any(cause.get("field") == "metadata.uid" for cause in causes)
    return error.code == 409 and "uid" in error.message.lower()


def conflict(resource: str, name: str, why: str, group: str = "") -> StatusError:
    text = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    return StatusError(make_status(409, "Conflict", text, _details(name, group, resource)))


OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(causes: Sequence[dict[str, str]], message: str) -> StatusError:
    """Server-side apply met fields that other managers own; each cause names one field and its manager."""
    return StatusError(make_status(409, "Conflict", message, {"causes": list(causes)}))


def gone(message: str) -> StatusError:
    return StatusError(make_status(410, "Gone", message))


def expired(message: str) -> StatusError:
    """A resourceVersion or continue token older than what is still held."""
    return StatusError(make_status(410, "Expired", message))


def entity_too_large(message: str) -> StatusError:
    return StatusError(make_status(413, "RequestEntityTooLarge", message))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(make_status(415, "UnsupportedMediaType", text))


def invalid(kind: str, name: str, errors: Iterable[FieldError], group: str = "") -> StatusError:
    """422 with one cause per field error."""
    listed = list(errors)
    causes = [{"reason": error.kind, "message": error.body(), "field": error.field} for error in listed]
    distinct = list(dict.fromkeys(str(error) for error in listed))
    text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
    qualified = f"{kind}.{group}" if group else kind
    message = f'{qualified} "{name}" is invalid: {text}'
    return StatusError(make_status(422, "Invalid", message, _details(name, group, kind, causes=causes)))


def too_many_requests(message: str, retry_after: int) -> StatusError:
    """``retry_after`` in seconds; with 0, client libraries do not ask again by themselves."""
    if not retry_after:
        return StatusError(make_status(429, "TooManyRequests", message, {}))
    details = {"retryAfterSeconds": retry_after}
    return StatusError(make_status(429, "TooManyRequests", message, details), {"Retry-After": str(retry_after)})


def internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(make_status(500, "InternalError", text, {"causes": [{"message": message}]}))


def service_unavailable(message: str) -> StatusError:
    return StatusError(make_status(503, "ServiceUnavailable", message))


def server_timeout(resource: str, verb: str, retry_after: int, group: str = "") -> StatusError:
    text = f"The {verb} operation against {_qualified(resource, group)} could not be completed at this time, please try again."
    details = _details("", group, resource, retryAfterSeconds=retry_after)
    return StatusError(make_status(500, "ServerTimeout", text, details), {"Retry-After": str(retry_after)})


def timeout(message: str) -> StatusError:
    return StatusError(make_status(504, "Timeout", f"Timeout: {message}"))
