"""Request bodies: read with a bound, decoded and checked against the kind that the URL expects."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import StreamReader

from apimachinery import errors, scheme
from apimachinery.codecs import json, negotiate, yaml
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import namespace_of
from apimachinery.schema import Schemas, StructSchema
from controlplane.apiserver.endpoints.options import IGNORE, STRICT
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call

Object = dict[str, Any]
_T = TypeVar("_T")

LIMIT = 3 * 1024 * 1024
NODES = 120_000  # keys and values; what fits into the limit and is worth storing has far fewer
APART = 128 * 1024
ACCEPTED = negotiate.BODIES


async def read(call: Call, limit: int = LIMIT) -> bytes:
    """The whole body. Raises 413 past ``limit``, before reading it when the client says how long it is."""
    data = await _received(call, limit)
    if len(data) > NODES:
        await _check_nodes(call, data)
    if call.record is not None:
        call.record.request, call.record.request_type = data, call.headers.get("Content-Type", "")
    return data


def stream(call: Call) -> StreamReader | None:
    """The body as it comes, for whoever passes it on without a look; None where there is none."""
    if not call.http.body_exists:
        return None
    _invite(call)
    return call.http.content


def _invite(call: Call) -> None:
    """Tell a client that waits for it (``Expect: 100-continue``) to send its body."""
    if call.headers.get("Expect", "").lower() == "100-continue" and call.http.transport is not None:
        call.http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _received(call: Call, limit: int) -> bytes:
    http = call.http
    declared = call.headers.get("Content-Length")
    if declared is not None and declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    _invite(call)
    content = http.content
    first = await content.readany()
    if content.at_eof():
        if len(first) > limit:
            raise _too_large(limit)
        return first
    pieces, size = [first], len(first)
    while piece := await content.readany():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


async def _check_nodes(call: Call, data: bytes) -> None:
    """Objects are dearer than bytes: 3 MB of ``[],[],`` or of YAML would take up to 500. Upstream has no such bound."""
    media_type = call.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type == negotiate.PROTOBUF:
        return
    codec = yaml if media_type in (negotiate.YAML, negotiate.APPLY_YAML) else json
    if await apart(data, lambda: codec.has_more_nodes(data, NODES)):
        raise errors.entity_too_large(f"Request entity too large: limit is {NODES} keys and values")


async def apart(data: bytes, work: Callable[[], _T]) -> _T:
    """``work`` on ``data``; on a thread when that is so much that everybody else would notice (YAML: 4 s for 3 MB)."""
    return await asyncio.to_thread(work) if len(data) > APART else work()


def _too_large(limit: int) -> errors.StatusError:
    return errors.entity_too_large(f"Request entity too large: limit is {limit}")


async def read_object(
    call: Call, expected: GroupVersionKind, schemas: Schemas, field_validation: str, schema: StructSchema | None = None
) -> Object:
    """The body as an ``expected`` object in normal form. Strict findings become a 400 or warnings, as asked."""
    media_type = negotiate.body_type(call.headers.get("Content-Type", ""), ACCEPTED)
    data = await read(call)
    decoded = await apart(data, lambda: scheme.decode(data, media_type, expected, schemas, schema=schema))
    return _read(call, decoded, field_validation)


async def read_own(call: Call, scope: Scope, field_validation: str) -> Object:
    """The body as an object of the resource itself."""
    normalize = scope.strategy.normalize
    if normalize is None:
        return await read_object(call, scope.info.gvk, scope.schemas, field_validation)
    media_type = negotiate.body_type(call.headers.get("Content-Type", ""), scope.strategy.encodings)
    data = await read(call)
    decoded = await apart(data, lambda: scheme.decode_own(data, media_type, scope.info.gvk, normalize))
    return _read(call, decoded, field_validation)


def _read(call: Call, decoded: scheme.Decoded, field_validation: str) -> Object:
    report_strict(call, decoded, field_validation)
    obj = decoded.obj
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    return obj


def report_strict(call: Call, decoded: scheme.Decoded, field_validation: str) -> None:
    """Unknown and duplicate fields: an error, warnings, or nothing."""
    if not decoded.strict or field_validation == IGNORE:
        return
    if field_validation == STRICT:
        raise scheme.strict_error(decoded)
    call.warnings.extend(decoded.strict)


def match_namespace(obj: Object, namespace: str) -> None:
    """A new object belongs to the namespace of the URL. Raises a 400 when it says otherwise."""
    given = namespace_of(obj)
    if given and given != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")


def match_name(obj: Object, name: str, namespace: str) -> None:
    """A changed object is the one that the URL names. Raises a 400 when it says otherwise."""
    meta = obj["metadata"]
    given, where = meta.get("name") or "", meta.get("namespace") or ""
    if not given:
        text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    if namespace and where and where != namespace:
        text = f"the namespace of the object ({where}) does not match the namespace on the request ({namespace})"
        raise errors.bad_request(text)
