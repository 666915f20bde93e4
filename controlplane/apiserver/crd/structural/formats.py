"""Formats of text: which there are, and whether a text is of one (``kube-openapi/pkg/validation/strfmt``).

A format that is unknown, or known of another type, says nothing. Dashes in a format's name do not count.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from email.utils import parseaddr

from apimachinery import quantity
from apimachinery.cel.library import regex, urls
from apimachinery.names import is_ip

_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{%d}-?%s[0-9a-f]{%d}-?[0-9a-f]{12}$"
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}"
    r"([a-zA-Z0-9\p{S}\p{L}])(-?[a-zA-Z0-9\p{S}\p{L}]){1,62})$"
)
_CREDIT_CARD = (
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
)
_CHANNEL = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
_MAC = re.compile(
    r"(?:[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}|[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\2){6}[0-9a-fA-F]{2}"
    r"|[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\3){18}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"
    r"|(?:[0-9a-fA-F]{4}\.){3}[0-9a-fA-F]{4}|(?:[0-9a-fA-F]{4}\.){9}[0-9a-fA-F]{4})"
)
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_SCALA_DURATION = re.compile(
    r"(?:\s*\d+\s*(?:ns|nanos?|nanoseconds?|nsec|us|µs|micros?|microseconds?|microsec|usec|ms|millis?|milliseconds?|msec"
    r"|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)\s*)+",
    re.IGNORECASE,
)


def is_known(name: str) -> bool:
    return normalized(name) in _CHECKS


def normalized(name: str) -> str:
    return name.replace("-", "")


def checker(name: str) -> Callable[[str], bool] | None:
    """Whether a text is of the format ``name``; None where that says nothing."""
    return _CHECKS.get(normalized(name))


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda text: regex.compiled(pattern).search(text) is not None


def _is_email(text: str) -> bool:
    """As Go's ``mail.ParseAddress`` in the large: a name and an address in angle brackets, or an address alone."""
    _, address = parseaddr(text)
    if not text.strip().endswith((address, f"<{address}>")):
        return False
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and " " not in domain


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and all(len(part) <= 63 for part in text.split(".")) and _pattern(_HOSTNAME)(text)


def _is_ipv4(text: str) -> bool:
    return "." in text and not is_ip(text)


def _is_ipv6(text: str) -> bool:
    return ":" in text and not is_ip(text)


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(slash) and length.isdecimal() and (length == "0" or length[0] != "0") and "%" not in address


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    try:
        return found is not None and bool(datetime.fromisoformat(f"{found[1]}T{found[2]}"))
    except ValueError:
        return False


def _is_duration(text: str) -> bool:
    return bool(_DURATION.fullmatch(text) or _SCALA_DURATION.fullmatch(text))


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    if not _pattern(_BASE64)(text):
        return False
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _digits(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((at + 1) * (10 if digit == "X" else int(digit)) for at, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    """The numbers of an issuer, with a checksum after Luhn."""
    digits = re.sub(r"[^0-9]+", "", text)
    if not _pattern(_CREDIT_CARD)(digits):
        return False
    doubled = [int(digit) * (2 if at % 2 else 1) for at, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(r"^[0-9a-fA-F]{24}$"),
    "uri": urls.is_url,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _pattern(_UUID % ("", 4, "", 4)),
    "uuid3": _pattern(_UUID % ("3", 3, "", 4)),
    "uuid4": _pattern(_UUID % ("4", 3, "[89ab]", 3)),
    "uuid5": _pattern(_UUID % ("5", 3, "[89ab]", 3)),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    "hexcolor": _pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "rgbcolor": _pattern(rf"^rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)$"),
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "quantity": _is_quantity,
    "k8sshortname": lambda text: len(text) <= 63 and _pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")(text),
    "k8slongname": lambda text: (
        len(text) <= 253 and _pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")(text)
    ),
}
