"""LIST: the cached bytes of each item joined to pieces; nothing is decoded or encoded unless another form is asked for."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from apimachinery.codecs import negotiate, protobuf
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.endpoints import table
from controlplane.apiserver.endpoints.options import list_options
from controlplane.apiserver.endpoints.respond import accepted, compress, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import ListResult
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.pieces import PIECE, Pieces
from controlplane.apiserver.wire.reply import Reply

SHARED = 8 << 20  # bytes of a list that are kept for the next who asks
_END = b"]}"
_TURN = 50  # objects encoded as protobuf between two turns of the loop
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
    else:
        reply = value_reply(call, listed(scope, found), wanted)
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
            items.append(b"".join([make(entry.decode()) for entry in found.entries[start : start + _TURN]]))
            await asyncio.sleep(0)
        if found.memo is not None and (size := sum(map(len, items))) <= SHARED:
            found.memo.keep("protobuf", items, size)
    length = sum(map(len, items))
    metadata = {"resourceVersion": str(found.revision), **_paging(found)}
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


def listed(scope: Scope, found: ListResult) -> dict[str, Any]:
    """The list as a value, for YAML and pretty printing."""
    gvk = scope.info.gvk
    return {
        "kind": f"{gvk.kind}List",
        "apiVersion": gvk.api_version,
        "metadata": {"resourceVersion": str(found.revision), **_paging(found)},
        "items": [_without_type(entry.decode()) for entry in found.entries],
    }


def _without_type(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
