"""LIST: the cached bytes of each item joined to pieces; nothing is decoded or encoded unless another form is asked for."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from apimachinery.codecs import negotiate, protobuf
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.endpoints import table
from controlplane.apiserver.endpoints.options import list_options
from controlplane.apiserver.endpoints.respond import accepted, compress, to_yaml, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import ListResult
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.pieces import PIECE, Pieces
from controlplane.apiserver.wire.reply import Reply
from controlplane.apiserver.wire.turns import take_turn

SHARED = 8 << 20  # bytes of a list that are kept for the next who asks
_END = b"]}"
_TURN = 50  # objects encoded as protobuf or indented in one turn of the loop
PARTIAL_LIST = "PartialObjectMetadataList"


async def list_(call: Call, scope: Scope) -> Reply:
    wanted = accepted(call, ("", "Table", PARTIAL_LIST))
    found = await scope.store.list(call.info.namespace, list_options(call.query, scope.strategy))
    if wanted.as_kind == "Table":
        value = await table.of_many(scope.strategy, found.entries, call, str(found.revision), _paging(found))
        reply = value_reply(call, value, wanted)
    elif wanted.as_kind == PARTIAL_LIST:
        metadata = {"resourceVersion": str(found.revision), **_paging(found)}
        reply = value_reply(call, await table.partial_list(found.entries, metadata), wanted)
    elif wanted.name == negotiate.JSON and "pretty" not in call.query:
        reply = Reply(200, streamed(scope, found))
    elif wanted.name == negotiate.PROTOBUF and (body := await packed(scope, found)) is not None:
        reply = Reply(200, body, negotiate.PROTOBUF)
    elif wanted.name == negotiate.YAML:
        reply = Reply(200, await in_yaml(scope, found), negotiate.YAML)
    else:
        reply = Reply(200, await indented(scope, found, is_true(call.query.get("pretty"))))
    return compress(call, scope, reply)


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


async def packed(scope: Scope, found: ListResult) -> Pieces | None:
    """The list as protobuf; None when its kind has none. Lengths stand before what they measure, so it is made whole."""
    group, version, kind = scope.info.gvk
    gvk = GroupVersionKind(group, version, f"{kind}List")
    make = protobuf.list_items(gvk)
    if make is None:
        return None
    items: list[bytes] | None = found.memo.get("protobuf") if found.memo is not None else None
    if items is None:
        items = []
        for start in range(0, len(found.entries), _TURN):
            await take_turn()
            items.append(b"".join([make(entry.decode()) for entry in found.entries[start : start + _TURN]]))
        if found.memo is not None and (size := sum(map(len, items))) <= SHARED:
            found.memo.keep("protobuf", items, size)
    length = sum(map(len, items))
    metadata = _metadata(found)
    lead, tail = protobuf.list_frame(gvk.api_version, gvk.kind, metadata, length)
    return Pieces(lead, (*items, tail), length + len(tail))


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
    return f'{{"kind":"{gvk.kind}List","apiVersion":"{gvk.api_version}","metadata":{{{metadata}}},"items":['.encode()


async def in_yaml(scope: Scope, found: ListResult) -> Pieces:
    """The list as YAML, which takes milliseconds an object: everybody else has a turn between two of them."""
    gvk = scope.info.gvk
    pieces: list[bytes] = []
    for entry in found.entries:
        await take_turn()
        pieces.append(to_yaml([_without_type(entry.decode())]))
    lead = to_yaml({"apiVersion": gvk.api_version}) + (b"items:\n" if pieces else b"items: []\n")
    pieces.append(to_yaml({"kind": f"{gvk.kind}List", "metadata": _metadata(found)}))
    return Pieces(lead, pieces, sum(map(len, pieces)))


async def indented(scope: Scope, found: ListResult, pretty: bool) -> Pieces | bytes:
    """The list as JSON for people, or as it always is where they say that they do not want it so."""
    if not pretty:
        return streamed(scope, found)
    gvk = scope.info.gvk
    value = {"kind": f"{gvk.kind}List", "apiVersion": gvk.api_version, "metadata": _metadata(found), "items": []}
    whole = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    if not found.entries:
        return whole
    pieces: list[bytes] = []
    for start in range(0, len(found.entries), _TURN):
        await take_turn()
        group = found.entries[start : start + _TURN]
        shown = (orjson.dumps(_without_type(entry.decode()), option=orjson.OPT_INDENT_2) for entry in group)
        pieces.append(b"".join(b",\n    " + one.replace(b"\n", b"\n    ") for one in shown))
    pieces[0] = pieces[0][1:]
    pieces.append(b"\n  ]\n}")
    return Pieces(whole.removesuffix(b"]\n}"), pieces, sum(map(len, pieces)))


def _metadata(found: ListResult) -> dict[str, Any]:
    return {"resourceVersion": str(found.revision), **_paging(found)}


def _without_type(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
