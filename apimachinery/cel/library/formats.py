"""Named formats of text. Upstream's ``library.Format``.

``validate`` and ``format.named`` give optional values, which no function of ours can return to the evaluator. The type checker
is told of the optional ones; what is evaluated calls others beneath them, whose empty result becomes ``optional.none()``:
:func:`change` is the change of the compiled expression.
"""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from apimachinery import names
from apimachinery.cel import rewrite, values
from apimachinery.cel.library import urls
from apimachinery.cel.library.declare import STRING, Overload, T, list_of

_TYPE = T(values.FORMAT)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)")
_Check = Callable[[str], Sequence[str]]


def _unless(good: Callable[[str], bool], message: str) -> _Check:
    return lambda text: [] if good(text) else [message]


def _prefix(check: _Check) -> _Check:
    """A name that more will be added to may end with a hyphen."""
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        urls.check(text)
    except ValueError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return []


def _is_base64(text: str) -> bool:
    try:
        return bool(text) and base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return _DATE.fullmatch(text) is not None


def _is_datetime(text: str) -> bool:
    match = _DATETIME.fullmatch(text)
    if match is None:
        return False
    try:
        datetime.fromisoformat(f"{match[1]}T{match[2]}")
    except ValueError:
        return False
    return True


FORMATS: dict[str, _Check] = {
    "dns1123Label": names.is_dns1123_label,
    "dns1123Subdomain": names.is_dns1123_subdomain,
    "dns1035Label": names.is_dns1035_label,
    "qualifiedName": names.is_qualified_name,
    "dns1123LabelPrefix": _prefix(names.is_dns1123_label),
    "dns1123SubdomainPrefix": _prefix(names.is_dns1123_subdomain),
    "dns1035LabelPrefix": _prefix(names.is_dns1035_label),
    "labelValue": names.is_label_value,
    "uri": _uri,
    "uuid": _unless(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"),
    "byte": _unless(_is_base64, "invalid base64"),
    "date": _unless(_is_date, "invalid date"),
    "datetime": _unless(_is_datetime, "invalid datetime"),
}


def _constant(name: str) -> Callable[[], Any]:
    return lambda: values.make(values.FORMAT, name)


def _named(name: str) -> Any:
    return values.make(values.FORMAT, name if name in FORMATS else "")


def _validate(value: Any, text: str) -> list[str]:
    return list(FORMATS[values.text_of(value)](text))


def _optional(of: T) -> T:
    return T("optional_type", (of,))


DECLARED = (
    Overload("validate", "format-validate", (_TYPE, STRING), _optional(list_of(STRING)), _validate, True),
    Overload("format.named", "format-named", (STRING,), _optional(_TYPE), _named),
)
"""For the type checker only."""
OVERLOADS = (
    Overload("k8s.validate", "k8s_validate", (_TYPE, STRING), list_of(STRING), _validate),
    Overload("k8s.named", "k8s_named", (STRING,), _TYPE, _named),
    *(Overload(f"format.{name}", f"format.{name}", (), _TYPE, _constant(name)) for name in FORMATS),
)
_BENEATH = {"validate": "k8s.validate", "format.named": "k8s.named"}


def change(node: Any) -> None:
    """Puts what can be evaluated in place of what the type checker knows."""
    beneath = _BENEATH.get(node.call_expr.function) if node.HasField("call_expr") else None
    if beneath is not None:
        rewrite.as_function(node, beneath)
        rewrite.call_of(node, "optional.ofNonZeroValue")


def concerns(compiled: bytes) -> bool:
    """Whether an expression may call one of these. Quick."""
    return b"validate" in compiled or b"format.named" in compiled
