"""From an entry to an answer in the form that the client accepts. An object as JSON, the usual case, is ready bytes."""

from functools import lru_cache
from typing import Any

import orjson

from apimachinery.codecs import negotiate, protobuf
from apimachinery.codecs.json import encode
from apimachinery.codecs.negotiate import MediaType
from controlplane.apiserver.endpoints import table
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import Entry
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.pieces import Stream
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]

GZIP_ABOVE = 128 * 1024
_PLAIN = MediaType(negotiate.JSON)
PARTIAL = "PartialObjectMetadata"


@lru_cache(maxsize=512)
def _accepted(header: str, offers: tuple[str, ...], kinds: tuple[str, ...]) -> MediaType:
    chosen = negotiate.accepts(header, offers, kinds)
    if chosen.name == negotiate.PROTOBUF:
        # JSON is ready bytes here and protobuf is not: clients that take both (client-go's default) get JSON
        for other in negotiate.parse_accept(header):
            if other.name == negotiate.JSON and other.as_kind == chosen.as_kind and other.quality >= chosen.quality:
                return other
    return chosen


def accepted(
    call: Call, kinds: tuple[str, ...] = ("", "Table", PARTIAL), offers: tuple[str, ...] = negotiate.BODIES
) -> MediaType:
    """What the client wants of what there is; ``offers`` are the encodings of whole objects. Raises a 406."""
    header = call.headers.get("Accept", "")
    return _PLAIN if header in ("", "*/*", negotiate.JSON) else _accepted(header, offers, kinds)


def check_accepts(call: Call, scope: Scope) -> None:
    """Before a write: a client that could not read the answer changes nothing. Raises a 406."""
    accepted(call, offers=scope.strategy.encodings)


def object_reply(call: Call, scope: Scope, entry: Entry, status: int = 200) -> Reply:
    """One object."""
    wanted = accepted(call, offers=scope.strategy.encodings)
    if wanted.as_kind == "Table":
        return value_reply(call, table.of_entries(scope.strategy, [entry], call, str(entry.revision)), wanted, status)
    if wanted.as_kind == PARTIAL:
        return value_reply(call, table.partial(entry.decode()), wanted, status)
    if wanted.name == negotiate.JSON and "pretty" not in call.query:
        return Reply(status, entry.body)
    return value_reply(call, entry.decode(), wanted, status)


def value_reply(call: Call, value: Object, wanted: MediaType | None = None, status: int = 200) -> Reply:
    """Any value that has no ready bytes: a Status, a review, a Table."""
    if wanted is None:
        wanted = accepted(call, ("",))
    if wanted.name == negotiate.YAML:
        return Reply(status, to_yaml(value), negotiate.YAML)
    if wanted.name == negotiate.PROTOBUF and (packed := protobuf.encode(value)) is not None:
        return Reply(status, packed, negotiate.PROTOBUF)
    if is_true(call.query.get("pretty")):
        return Reply(status, orjson.dumps(value, option=orjson.OPT_INDENT_2))
    return Reply(status, encode(value))


def to_yaml(value: Any) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(value, Dumper=dumper, sort_keys=True, encoding="utf-8", allow_unicode=True)
    return text


def compress(call: Call, scope: Scope, reply: Reply) -> Reply:
    """Have a large body gzipped on its way when the client takes it. HTTP/1.0 knows no chunks, in which it goes."""
    if not scope.features.enabled("APIResponseCompression"):
        return reply
    large = isinstance(reply.body, Stream) or len(reply.body) >= GZIP_ABOVE
    if large and "gzip" in call.headers.get("Accept-Encoding", "") and call.http.version >= (1, 1):
        reply.gzip = True
    return reply


def note_stored(call: Call, entry: Entry) -> None:
    """Tell the audit log what a write stored."""
    meta = orjson.loads(entry.body).get("metadata") or {}
    call.stored_as = (meta.get("name", ""), meta.get("uid", ""), meta.get("resourceVersion", ""))
