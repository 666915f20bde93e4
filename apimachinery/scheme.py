"""From bytes to an object of a known kind: decode, find out what it claims to be, check it against the schema.

Called by ``endpoints`` for every body that holds an object. It knows kinds through ``schema`` only; which of them are served
and under which resource names is for ``kinds.catalog`` to say. All refusals are upstream's 400s, word for word where
clients could care.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apimachinery import errors
from apimachinery.codecs import json, negotiate, yaml
from apimachinery.gvk import GroupVersion, GroupVersionKind
from apimachinery.schema import Schemas, StructSchema, check

Object = dict[str, Any]

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"  # upstream names its registry so; clients have been seen to match on the sentence
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
MAX_STRICT = 100


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body in normal form (see ``schema.check``). ``strict`` lists unknown and duplicate fields, each as upstream words it."""

    obj: Object
    gvk: GroupVersionKind
    strict: list[str]


def decode(
    data: bytes,
    media_type: str,
    expected: GroupVersionKind,
    schemas: Schemas,
    *,
    schema: StructSchema | None = None,
    any_group: bool = False,
) -> Decoded:
    """Decode a body that should hold an ``expected`` object.

    A missing ``kind`` or ``apiVersion`` is filled in from ``expected``. ``schema`` overrides the built-in one (custom
    resources, options). ``any_group`` lets the apiVersion be whatever it likes (``DeleteOptions``).
    The object comes back in normal form with ``apiVersion`` and ``kind`` set. Raises 400 StatusErrors.
    """
    value, duplicates = _parse(data, media_type, expected)
    gvk = _claimed(value, expected, data)
    if any_group and gvk.kind == expected.kind:
        gvk = expected
    _check_kind(gvk, expected, schemas)
    struct = schema or schemas.of(gvk)
    findings = check.normalize(value, struct)
    if findings.type_errors:
        raise cannot_handle(gvk, expected, findings.type_errors[0])
    value["apiVersion"], value["kind"] = gvk.api_version, gvk.kind
    return Decoded(value, gvk, (findings.unknown + duplicates())[:MAX_STRICT])


def decode_own(
    data: bytes, media_type: str, expected: GroupVersionKind, normalize: Callable[[Object], check.Findings]
) -> Decoded:
    """Decode a body of a kind that the release does not know (a custom resource). ``normalize`` works in place.

    It must say itself what it is; whether that is the right kind is for validation to say. Raises 400 StatusErrors.
    """
    value, duplicates = _parse(data, media_type, expected)
    gvk = _claimed(value, expected, data)
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(field):
            raise _unrecognized(expected, f"Object '{name}' is missing in '{data.decode('utf-8', 'replace')}'", data)
    if gvk.api_version != expected.api_version:
        text = f"the API version in the data ({gvk.api_version}) does not match the expected API version ({expected.api_version})"
        raise errors.bad_request(text)
    findings = normalize(value)
    if findings.type_errors:
        raise cannot_handle(gvk, expected, findings.type_errors[0])
    return Decoded(value, gvk, (duplicates() + findings.unknown)[:MAX_STRICT])


def strict_error(decoded: Decoded) -> errors.StatusError:
    """The 400 of ``fieldValidation=Strict`` for a body with ``strict`` findings."""
    return cannot_handle(decoded.gvk, decoded.gvk, f"strict decoding error: {', '.join(decoded.strict)}")


def cannot_handle(gvk: GroupVersionKind, expected: GroupVersionKind, why: str) -> errors.StatusError:
    return errors.bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {expected.kind}: {why}')


def _parse(data: bytes, media_type: str, expected: GroupVersionKind) -> tuple[Any, Callable[[], list[str]]]:
    """The value, and a function that lists repeated keys (only asked for once the rest is right: it costs another parse)."""
    try:
        if media_type == negotiate.YAML:
            value, repeated = yaml.decode_strict(data)
            return value, lambda: repeated
        if media_type == negotiate.PROTOBUF:
            return _protobuf(data, expected), list
        value = json.decode(data)
        # What is written back byte for byte (most clients send it so) repeats no key; that is far cheaper to find out.
        exact = json.is_written_as(value, data)
        return value, lambda: [] if exact else json.duplicate_keys(data)
    except errors.StatusError as problem:
        if media_type == negotiate.PROTOBUF:
            raise
        prefix = "" if media_type == negotiate.YAML else "couldn't get version/kind; json parse error: "
        raise _unrecognized(expected, prefix + problem.message, data) from None


def _protobuf(data: bytes, expected: GroupVersionKind) -> Object:
    from apimachinery.codecs import protobuf

    try:
        return protobuf.decode(data)
    except RecursionError:
        raise errors.bad_request("exceeded max depth") from None
    except ValueError as problem:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {expected.kind}): {problem}") from None


def _unrecognized(expected: GroupVersionKind, why: str, data: bytes) -> errors.StatusError:
    text = f"the object provided is unrecognized (must be of type {expected.kind}): {why} ({_summary(data)})"
    return errors.bad_request(text)


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    more = " ..." if len(data) > 30 else ""
    return (data[:30].decode("utf-8", "replace") if data[:1] == b"{" else data[:30].hex()) + more


def _claimed(value: Any, expected: GroupVersionKind, data: bytes) -> GroupVersionKind:
    """What the object says it is, completed from what is expected here."""
    prefix = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if not isinstance(value, dict):
        said = {str: "string", bool: "bool", list: "array", type(None): "null"}.get(type(value), "number")
        if value is not None:
            raise _unrecognized(expected, f"{prefix} {said} into Go value of type {_TYPE_META}", data)
        raise cannot_handle(expected, expected, "the body is null")
    for key in ("apiVersion", "kind"):
        found = value.get(key)
        if found is not None and not isinstance(found, str):
            said = {bool: "bool", list: "array", dict: "object"}.get(type(found), "number")
            raise _unrecognized(expected, f"{prefix} {said} into Go struct field .{key} of type string", data)
    kind = value.get("kind") or expected.kind
    try:
        claimed = GroupVersion.parse(value.get("apiVersion") or "")
    except ValueError as problem:
        raise _unrecognized(expected, str(problem), data) from None
    if not claimed.version and not claimed.group:
        return GroupVersionKind(expected.group, expected.version, kind)
    return GroupVersionKind(claimed.group, claimed.version, kind)


def _check_kind(gvk: GroupVersionKind, expected: GroupVersionKind, schemas: Schemas) -> None:
    if gvk == expected:
        return
    if not schemas.has(gvk):
        text = f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{_SCHEME}"'
        raise cannot_handle(gvk, expected, text)
    if gvk.api_version != expected.api_version:
        text = f"the API version in the data ({gvk.api_version}) does not match the expected API version ({expected.api_version})"
        raise errors.bad_request(text)
    text = f"converting ({gvk.version}.{gvk.kind}) to ({_package(expected)}.{expected.kind}): unknown conversion"
    raise cannot_handle(gvk, expected, text)


def _package(gvk: GroupVersionKind) -> str:
    """The Go package of a group's internal types."""
    return gvk.group.partition(".")[0] or "core"
