"""Scalars that are more than their JSON type: what is valid, the one normal form, and the words of Go's decoder otherwise.

Used by ``fast`` (is it normal?), ``check`` (make it so, or say why not) and ``codecs.protobuf``.
"""

import base64
import binascii
import re
from datetime import datetime

from apimachinery import quantity
from apimachinery.times import format_micro_time, format_time

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z").fullmatch
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(?:Z|[+-]\d\d:\d\d)").fullmatch
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=\r\n]")

TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_TIME_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_PARTS = (("2006", 4), ("-", 1), ("01", 2), ("-", 1), ("02", 2), ("T", 1), ("15", 2), (":", 1), ("04", 2), (":", 1), ("05", 2))


def canonical_quantity(value: object) -> str:
    """The text upstream stores for a quantity, given as text or as a JSON number. Raises ValueError with its message."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(quantity.FORMAT_ERROR)
    return quantity.canonical(value)


def is_canonical_time(text: str, length: int) -> bool:
    """UTC, and exactly as many digits as the kind of time has; ``length`` is 20 or 27."""
    if len(text) != length or _TIME(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def canonical_time(text: str, *, micro: bool = False) -> str:
    """In UTC, cut to the second (or microsecond). Raises ValueError in the words of Go's ``time.Parse``."""
    layout = MICRO_TIME_LAYOUT if micro else TIME_LAYOUT
    if _RFC3339(text) is None:
        raise ValueError(_parse_complaint(text, layout))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f'parsing time "{text}": {_out_of_range(text)} out of range') from None
    return format_micro_time(when) if micro else format_time(when)


def _parse_complaint(text: str, layout: str) -> str:
    """Go names the piece of the layout that it could not find, and the text from there on."""
    rest = text
    for piece, size in _PARTS:
        head = rest[:size]
        fits = (head.isdigit() and len(head) == size) if piece.isdigit() else head == piece
        if not fits:
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{piece}"'
        rest = rest[size:]
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "Z07:00"'


def _out_of_range(text: str) -> str:
    if not 1 <= int(text[5:7]) <= 12:
        return "month"
    for name, part, limit in (("hour", text[11:13], 23), ("minute", text[14:16], 59), ("second", text[17:19], 59)):
        if int(part) > limit:
            return name
    return "day"


def is_base64(text: str) -> bool:
    return _BASE64(text) is not None


def canonical_base64(text: str) -> str:
    """Without line breaks, which Go's decoder skips. Raises ValueError in its words."""
    bare = text.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(bare, validate=True)
    except binascii.Error:
        found = _NOT_BASE64.search(text)
        position = found.start() if found else len(text) // 4 * 4
        raise ValueError(f"illegal base64 data at input byte {position}") from None
    return bare
