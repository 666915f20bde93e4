"""Validation errors: a path into an object, what is wrong there, and upstream's wording of it.

Made by the validation of kinds, collected into one list, and turned into a 422 by ``errors.invalid``.
Kinds of error and their texts follow k8s.io/apimachinery ``pkg/util/validation/field``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class Path(str):
    """A field path such as ``spec.containers[0].image``; build it with ``/`` for fields, ``[]`` for elements.

    >>> (Path("spec") / "containers").index(0) / "image"
    'spec.containers[0].image'
    """

    __slots__ = ()

    def child(self, *names: str) -> "Path":
        return Path(".".join([self, *names]) if self else ".".join(names))

    def __truediv__(self, name: str) -> "Path":
        return Path(f"{self}.{name}" if self else name)

    def index(self, position: int) -> "Path":  # type: ignore[override]
        return Path(f"{self}[{position}]")

    def key(self, name: str) -> "Path":
        return Path(f"{self}[{name}]")


class _Omitted:
    """The value of an error that shows none."""


OMITTED = _Omitted()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field. ``kind`` is a cause reason such as ``FieldValueRequired``."""

    kind: str
    field: str
    bad_value: Any = None
    detail: str = ""

    def body(self) -> str:
        """The text without the path, as ``Status`` causes carry it."""
        title = _TITLES[self.kind]
        if self.kind in _WITHOUT_VALUE or self.bad_value is OMITTED:
            return f"{title}: {self.detail}" if self.detail else title
        text = f"{title}: {_shown(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


_TITLES = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError"})


def _shown(value: Any) -> str:
    """A value as upstream prints it: strings quoted, numbers and booleans bare, structures as JSON."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return "null"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, value, detail)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, value, detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, value)


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", path, value, detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, "", detail)


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    """``supported`` is shown in its own order, as upstream does."""
    quoted = ", ".join(json.dumps(choice) for choice in supported)
    return FieldError("FieldValueNotSupported", path, value, f"supported values: {quoted}")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, "", f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", path, count, f"must have at most {limit} item" + ("" if limit == 1 else "s"))


def internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, None, detail)
