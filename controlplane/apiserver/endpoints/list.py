"""LIST: the cached bytes of each item joined into one body; nothing is decoded or encoded unless another form is asked for."""

from typing import Any

from apimachinery.codecs import negotiate
from controlplane.apiserver.endpoints import table
from controlplane.apiserver.endpoints.options import list_options
from controlplane.apiserver.endpoints.respond import accepted, compress, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import ListResult
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

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
        reply = Reply(200, joined(scope, found))
    else:
        reply = value_reply(call, listed(scope, found), wanted)
    return await compress(call, reply)


def _paging(found: ListResult) -> dict[str, Any]:
    paging: dict[str, Any] = {}
    if found.continue_token:
        paging["continue"] = found.continue_token
        if found.remaining is not None:
            paging["remainingItemCount"] = found.remaining
    return paging


def joined(scope: Scope, found: ListResult) -> bytes:
    """The list as JSON bytes."""
    gvk = scope.info.gvk
    metadata = f'"resourceVersion":"{found.revision}"'
    if found.continue_token:
        metadata += f',"continue":"{found.continue_token}"'
        if found.remaining is not None:
            metadata += f',"remainingItemCount":{found.remaining}'
    head = f'{{"kind":"{gvk.kind}List","apiVersion":"{gvk.api_version}","metadata":{{{metadata}}},"items":['
    parts = [entry.item for entry in found.entries] or [b""]
    parts[0] = head.encode() + parts[0]  # one join over all, because each pass over megabytes shows
    parts[-1] += b"]}"
    return b",".join(parts)


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
