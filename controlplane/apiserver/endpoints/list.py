"""LIST: the cached bytes of each item joined to pieces; nothing is decoded or encoded unless another form is asked for.

Other forms (Table, metadata alone, YAML, JSON for people) are made a group of objects at a time. A short list is put together
and has a length; a long one is sent while it is made, so that nobody ever holds all of it.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import orjson

from apimachinery.codecs import negotiate, protobuf
from apimachinery.codecs.json import encode
from apimachinery.codecs.negotiate import MediaType
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.endpoints import table
from controlplane.apiserver.endpoints.options import list_options
from controlplane.apiserver.endpoints.respond import accepted, compress, to_yaml, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import Entry, ListResult
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.pieces import PIECE, Pieces, Squeezed, Stream
from controlplane.apiserver.wire.reply import Reply
from controlplane.apiserver.wire.turns import take_turn

SHARED = 8 << 20  # bytes of a list that are kept for the next who asks
LONG = 1_000  # objects; a longer list that has to be made is sent while it is made
_END = b"]}"
_TURN = 50  # objects brought into another form in one turn of the loop
PARTIAL_LIST = "PartialObjectMetadataList"
_META_V1 = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Form:
    """How a list is written: ``lead``, the items with ``between`` them, ``tail``. ``group``: how many objects in one turn."""

    lead: bytes
    item: Callable[[Entry], bytes]
    tail: bytes = _END
    between: bytes = b","
    content_type: str = negotiate.JSON
    group: int = _TURN


async def list_(call: Call, scope: Scope) -> Reply:
    wanted = accepted(call, ("", "Table", PARTIAL_LIST), scope.strategy.encodings)
    options = list_options(call.query, scope.strategy)
    found = await scope.store.list(call.info.namespace, replace(options, in_parts=True))
    return compress(call, scope, await _reply(call, scope, found, wanted))


async def _reply(call: Call, scope: Scope, found: ListResult, wanted: MediaType) -> Reply:
    long = found.rest is not None or len(found.entries) > LONG
    pretty = is_true(call.query.get("pretty"))
    if wanted.name == negotiate.PROTOBUF and (body := await _packed_as(scope, found, wanted)) is not None:
        return Reply(200, body, negotiate.PROTOBUF)
    if wanted.as_kind and (pretty or wanted.name == negotiate.YAML):
        whole = await _written(_form(call, scope, found, wanted, pretty=False), found)
        return value_reply(call, orjson.loads(bytes(whole)), wanted)
    if wanted.name != negotiate.YAML and not wanted.as_kind and not pretty and not (long and (found.made or found.rest)):
        return Reply(200, streamed(scope, found))
    form = _form(call, scope, found, wanted, pretty=pretty)
    if long:
        return Reply(200, Stream(form.lead, _pieces(form, found)), form.content_type)
    return Reply(200, await _written(form, found), form.content_type)


def _form(call: Call, scope: Scope, found: ListResult, wanted: MediaType, *, pretty: bool) -> Form:
    if wanted.as_kind == "Table":
        head, make = table.in_rows(scope.strategy, call, str(found.revision), _paging(found))
        return Form(encode(head).removesuffix(_END), lambda entry: encode(make(entry)))
    if wanted.as_kind == PARTIAL_LIST:
        value = {"kind": PARTIAL_LIST, "apiVersion": _META_V1, "metadata": _metadata(found), "items": []}
        return Form(encode(value).removesuffix(_END), lambda entry: encode(table.partial(entry.decode())))
    if wanted.name == negotiate.YAML:
        return _in_yaml(scope, found)
    return _indented(scope, found) if pretty else Form(_head(scope, found), lambda entry: entry.item)


async def _pieces(form: Form, found: ListResult) -> AsyncIterator[bytes]:
    """What comes after the lead. Everybody else has a turn between two of them."""
    between, items, size = b"", list[bytes](), 0
    async for group in found.parts(form.group):
        await take_turn()
        for entry in group:
            items.append(form.item(entry))
            size += len(items[-1])
            if size > PIECE:
                yield between + form.between.join(items)
                between, items, size = form.between, [], 0
        if items:
            yield between + form.between.join(items)
            between, items, size = form.between, [], 0
    yield form.tail


async def _written(form: Form, found: ListResult) -> Pieces:
    pieces = [piece async for piece in _pieces(form, found)]
    return Pieces(form.lead, pieces, sum(map(len, pieces)))


def _paging(found: ListResult) -> dict[str, Any]:
    paging: dict[str, Any] = {}
    if found.continue_token:
        paging["continue"] = found.continue_token
        if found.remaining is not None:
            paging["remainingItemCount"] = found.remaining
    return paging


def streamed(scope: Scope, found: ListResult) -> Pieces:
    """The list as JSON, made while it is sent. What comes after the metadata is shared by all who list the same."""
    memo = found.memo
    items: Items | None = memo.get("json") if memo is not None else None
    if items is None:
        items = Items([entry.item for entry in found.entries])
        if memo is not None and items.length <= SHARED:
            items.pieces = list(items)
            memo.keep("json", items, items.length)
    return Pieces(_head(scope, found), items, items.length)


def joined(scope: Scope, found: ListResult) -> bytes:
    """The list as JSON bytes."""
    return bytes(streamed(scope, found))


async def _packed_as(scope: Scope, found: ListResult, wanted: MediaType) -> Pieces | None:
    """The list, or a list of its metadata, as protobuf; None where there is no such message."""
    group, version, _ = scope.info.gvk
    if not wanted.as_kind:
        return await packed(
            found, GroupVersionKind(group, version, scope.info.collection_kind), "protobuf", lambda entry: entry.decode()
        )
    if wanted.as_kind != PARTIAL_LIST:
        return None
    gvk = GroupVersionKind("meta.k8s.io", "v1", PARTIAL_LIST)
    return await packed(found, gvk, "protobuf metadata", lambda entry: table.partial(entry.decode()))


async def packed(found: ListResult, gvk: GroupVersionKind, name: str, view: Callable[[Entry], dict[str, Any]]) -> Pieces | None:
    """Lengths stand before what they measure, so all of it is made first. What is more than can be shared is held compressed."""
    make = protobuf.list_items(gvk)
    if make is None:
        return None
    items: list[bytes] | None = found.memo.get(name) if found.memo is not None else None
    held, length = Squeezed(), 0
    if items is None:
        items = []
        async for group in found.parts(_TURN):
            await take_turn()
            for made in _joined(make(view(entry)) for entry in group):
                items.append(made)
                length += len(made)
                if length > SHARED:
                    for piece in items:
                        held.add(piece)
                    items = []
        if found.memo is not None and length <= SHARED:
            found.memo.keep(name, items, length)
    length = sum(map(len, items)) + held.length
    lead, tail = protobuf.list_frame(gvk.api_version, gvk.kind, _metadata(found), length)
    return Pieces(lead, Chained(items, held, (tail,)), length + len(tail))


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of about the size that is sent at once."""
    group: list[bytes] = []
    size = 0
    for part in parts:
        group.append(part)
        size += len(part)
        if size > PIECE:
            yield b"".join(group)
            group, size = [], 0
    if group:
        yield b"".join(group)


class Chained:
    """Pieces from several places, one after the other, as often as they are asked for."""

    def __init__(self, *parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._parts)


class Items:
    """The items of a list, each ready, and the end of the list; joined to pieces of a size that suits the connection."""

    __slots__ = ("_items", "length", "pieces")

    def __init__(self, items: Sequence[bytes]) -> None:
        self._items = items
        self.length = sum(map(len, items)) + max(len(items) - 1, 0) + len(_END)
        self.pieces: Sequence[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces) if self.pieces is not None else self._made()

    def _made(self) -> Iterator[bytes]:
        if not self._items:
            yield _END
            return
        count = len(self._items)
        at_once = max(PIECE * count // self.length, 1)
        for start in range(0, count, at_once):
            group = list(self._items[start : start + at_once])
            group[-1] += b"," if start + at_once < count else _END  # one join over all else: each pass over megabytes shows
            yield b",".join(group)


def _head(scope: Scope, found: ListResult) -> bytes:
    gvk = scope.info.gvk
    metadata = f'"resourceVersion":"{found.revision}"'
    if found.continue_token:
        metadata += f',"continue":"{found.continue_token}"'
        if found.remaining is not None:
            metadata += f',"remainingItemCount":{found.remaining}'
    return (
        f'{{"kind":"{scope.info.collection_kind}","apiVersion":"{gvk.api_version}","metadata":{{{metadata}}},"items":['.encode()
    )


def _in_yaml(scope: Scope, found: ListResult) -> Form:
    """An object takes milliseconds, so each has a turn of its own."""
    gvk = scope.info.gvk
    none = not found.entries and found.rest is None
    lead = to_yaml({"apiVersion": gvk.api_version}) + (b"items: []\n" if none else b"items:\n")
    tail = to_yaml({"kind": scope.info.collection_kind, "metadata": _metadata(found)})
    return Form(lead, lambda entry: to_yaml([orjson.loads(entry.item)]), tail, b"", negotiate.YAML, 1)


def _indented(scope: Scope, found: ListResult) -> Form:
    """JSON for people."""
    gvk = scope.info.gvk
    value = {"kind": scope.info.collection_kind, "apiVersion": gvk.api_version, "metadata": _metadata(found), "items": []}
    whole = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    if not found.entries and found.rest is None:
        return Form(whole, _indented_item, b"", b"")
    return Form(whole.removesuffix(b"]\n}"), _indented_item, b"\n  ]\n}")


def _indented_item(entry: Entry) -> bytes:
    shown = orjson.dumps(orjson.loads(entry.item), option=orjson.OPT_INDENT_2)
    return b"\n    " + shown.replace(b"\n", b"\n    ")


def _metadata(found: ListResult) -> dict[str, Any]:
    return {"resourceVersion": str(found.revision), **_paging(found)}
