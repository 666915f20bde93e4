"""How long a request may take: ``--request-timeout``, or less if the client says so with ``?timeout=``.

Stands right after request info, as upstream's ``request_deadline.go``; ``chain`` carries it out.
"""

import re

from apimachinery import errors
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.wire.call import Call

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_LONGEST = 64  # characters of a duration that is looked at


def deadline(longest: float) -> Filter:
    """Sets ``call.seconds``; raises a 400 for a timeout that is no duration. ``longest`` is in seconds."""

    def step(call: Call) -> None:
        call.seconds = longest
        if "timeout=" not in call.query_string or is_long_running(call):
            return
        text = call.query.get("timeout", "")
        if text:
            wanted = duration(text)
            if 0 < wanted < longest:
                call.seconds = wanted

    return step


def duration(text: str) -> float:
    """Seconds of a duration as Go writes it. Raises a 400 with Go's words."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0.0
    total, at = 0.0, 0
    while at < len(body) <= _LONGEST:
        piece = _PIECE.match(body, at)
        if piece is None:
            break
        number, unit = piece.groups()
        if not unit:
            raise _bad(f'missing unit in duration "{text}"')
        if unit not in _UNITS:
            raise _bad(f'unknown unit "{unit}" in duration "{text}"')
        total += float(number) * _UNITS[unit]
        at = piece.end()
    if not body or at < len(body):
        raise _bad(f'invalid duration "{text[:_LONGEST]}"')
    return -total if text[0] == "-" else total


def _bad(why: str) -> errors.StatusError:
    return errors.bad_request(f"invalid timeout specified in the request URL - time: {why}")
