"""What stands beside a schema in a version: columns of ``kubectl get``, subresources, selectable fields, deprecation."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.crd.structural.paths import FieldPathError, resolve

Object = dict[str, Any]

MAX_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_NOT_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_PRINTABLE = "must only contain printable UTF-8 characters"


def check_columns(columns: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, column in enumerate(columns):
        here = f"{path}[{position}]"
        if not column.get("name"):
            found.append(fieldpath.required(f"{here}.name"))
        kind, text = column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            found.append(fieldpath.required(f"{here}.type", text))
        elif kind not in _COLUMN_TYPES:
            found.append(fieldpath.invalid(f"{here}.type", kind, text))
        form = column.get("format")
        if form and form not in _COLUMN_FORMATS:
            found.append(fieldpath.invalid(f"{here}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        found += _check_json_path(column.get("jsonPath") or "", f"{here}.JSONPath")
    return found


def check_subresources(subresources: Mapping[str, Any], path: str) -> list[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return []
    found: list[FieldError] = []
    for field, roots, words in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status"),
    ):
        text, here = scale.get(field) or "", f"{path}.scale.{field}"
        if not text and field == "labelSelectorPath":
            continue
        wrong = _check_json_path(text, here)
        found += wrong if wrong or text.startswith(roots) else [fieldpath.invalid(here, text, words)]
    return found


def _check_json_path(text: str, path: str) -> list[FieldError]:
    if not text:
        return [fieldpath.required(path)]
    return [] if text.startswith(".") else [fieldpath.invalid(path, text, "must be a simple json path starting with .")]


def check_selectable(fields: Sequence[Mapping[str, Any]], node: Node, path: str, *, may_be_many: bool) -> list[FieldError]:
    """``may_be_many``: there were more than allowed before, and an update left them alone."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, field in enumerate(fields):
        text, here = field.get("jsonPath") or "", f"{path}[{position}].jsonPath"
        if not text:
            found.append(fieldpath.required(here))
            continue
        try:
            place, target = resolve(text, node, brackets=False)
        except FieldPathError as error:
            found.append(fieldpath.invalid(here, text, f"is an invalid path: {error}"))
            continue
        if place.partition(".")[0] == "metadata":
            found.append(fieldpath.invalid(here, text, "must not point to fields in metadata"))
        if target.type not in ("string", "boolean", "integer"):
            found.append(fieldpath.invalid(here, text, _NOT_SELECTABLE))
        if place in seen:
            found.append(fieldpath.duplicate(here, text))
        seen.add(place)
    if len(seen) > MAX_SELECTABLE_FIELDS and not may_be_many:
        found.append(fieldpath.too_many(path, len(seen), MAX_SELECTABLE_FIELDS))
    return found


def check_deprecation(version: Mapping[str, Any], path: str) -> list[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [fieldpath.invalid(path, text, "can only be set for deprecated versions")]
    problems = ["must be <= 256 characters long"] if len(text.encode()) > 256 else []
    problems += [] if text else ["must not be an empty string"]
    strange = next((position for position, character in enumerate(text) if not character.isprintable()), None)
    if strange is not None:
        at = len(text[:strange].encode())
        problems.append(f"{_PRINTABLE}; non-printable character found at index {at}")
    return [fieldpath.invalid(path, text, problem) for problem in problems]
