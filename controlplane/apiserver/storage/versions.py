"""What resource versions and continue tokens mean, and upstream's words for wrong ones.

Pure functions over ``ListOptions``; used by ``objects`` and the cacher. Upstream: k8s.io/apiserver ``pkg/storage``.
"""

import base64
import binascii
from dataclasses import dataclass

import orjson

from apimachinery import errors
from apimachinery.errors import StatusError, make_status
from controlplane.apiserver.storage.interface import ListOptions, OutcomeUnknownError, StorageUnavailableError

FRESHNESS_TIMEOUT = 3.0  # seconds that a read waits for a resourceVersion from the future, as upstream

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a version, not a secret
_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter"
)
_INCONSISTENT = (
    ", or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted between the time the first "
    "chunk was returned and now may show up in the list."
)

LATEST, ANY, NOT_OLDER, EXACT, CONTINUE = "latest", "any", "not-older", "exact", "continue"


@dataclass(frozen=True, slots=True)
class Reading:
    """A list request understood. ``start`` is a key, inclusive; ``revision`` 0 of CONTINUE means: as it is now."""

    mode: str
    revision: int = 0
    start: str = ""
    limit: int = 0


def parse_version(text: str) -> int:
    """A resourceVersion parameter; "" is 0. Raises a 400."""
    if not text:
        return 0
    if text.isascii() and text.isdigit() and int(text) < 1 << 64:
        return int(text)
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    quoted = orjson.dumps(text).decode()
    detail = f"strconv.ParseUint: parsing {quoted}: {problem}"
    raise errors.bad_request(f"invalid resource version: resourceVersion: Invalid value: {quoted}: {detail}")


def understand(prefix: str, options: ListOptions) -> Reading:
    """Decide how to read, by upstream's table of resourceVersion, resourceVersionMatch, limit and continue."""
    if options.continue_token:
        if options.resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        start, revision = decode_continue(options.continue_token, prefix)
        return Reading(CONTINUE, max(revision, 0), start, options.limit)
    version, match = options.resource_version, options.resource_version_match
    revision = parse_version(version)
    if match == "Exact":
        if revision == 0:
            raise errors.bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        return Reading(EXACT, revision, limit=options.limit)
    if not version:
        return Reading(LATEST, limit=options.limit)
    if revision == 0:
        return Reading(ANY)  # upstream's cache answers whole lists here, whatever the limit
    if not match and options.limit:
        return Reading(EXACT, revision, limit=options.limit)
    return Reading(NOT_OLDER, revision, limit=options.limit)


def encode_continue(last_key: str, prefix: str, revision: int) -> str:
    """The token for what comes after ``last_key``; ``revision`` -1 accepts whatever holds then."""
    start = last_key[len(prefix) :] + "\0"
    token = orjson.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode_continue(token: str, prefix: str) -> tuple[str, int]:
    """Start key and revision. Raises a 400 for a token that this server did not make."""
    try:
        decoded = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, revision, start = decoded["v"], decoded["rv"], decoded["start"]
        if not (isinstance(revision, int) and isinstance(start, str)):
            raise TypeError("fields of a wrong type")
    except (binascii.Error, ValueError, TypeError, KeyError) as error:
        raise _bad_continue(str(error)) from None
    if version != _TOKEN_VERSION:
        raise _bad_continue(f"server does not recognize this encoded version {version}")
    if revision == 0:
        raise _bad_continue("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not start:
        raise _bad_continue("encoded start key empty (version meta.k8s.io/v1)")
    if start.startswith("/") or ".." in start.rstrip("\0").split("/"):
        raise _bad_continue(start)
    return prefix + start, revision


def _bad_continue(why: str) -> StatusError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")


def list_expired() -> StatusError:
    return errors.expired(_LIST_EXPIRED)


def continue_expired(prefix: str, start: str) -> StatusError:
    """410 that carries a token with which the client may go on, inconsistently."""
    status = make_status(410, "Expired", _CONTINUE_EXPIRED + _INCONSISTENT)
    status["metadata"] = {"continue": encode_continue(start.rstrip("\0"), prefix, -1)}
    return StatusError(status)


def watch_expired(revision: int, oldest: int) -> StatusError:
    return errors.expired(f"too old resource version: {revision} ({oldest})")


def too_large(asked: int, current: int) -> StatusError:
    """504 for a resourceVersion that has not come within the time allowed."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return StatusError(make_status(504, "Timeout", message, details), {"Retry-After": "1"})


def unavailable(error: StorageUnavailableError) -> StatusError:
    """What a client is told. Client libraries repeat what comes with Retry-After, so a write of unknown outcome has none."""
    if isinstance(error, OutcomeUnknownError):
        return errors.timeout(str(error))
    details = {"retryAfterSeconds": error.retry_after}
    return StatusError(make_status(503, "ServiceUnavailable", str(error), details), {"Retry-After": str(error.retry_after)})
