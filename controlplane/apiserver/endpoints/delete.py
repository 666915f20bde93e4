"""DELETE of one object: a Status when it is gone, the marked object while grace or finalizers hold it."""

from typing import Any

from apimachinery import scheme
from apimachinery.codecs import negotiate
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.endpoints.body import ACCEPTED, read
from controlplane.apiserver.endpoints.options import WriteOptions, delete_options
from controlplane.apiserver.endpoints.respond import note_stored, object_reply, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.store import Deleted
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]

DELETE_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")


async def read_options(call: Call, scope: Scope) -> Object:
    """DeleteOptions from the body, which may be absent, or from the query."""
    data = await read(call)
    if not data.strip():
        return delete_options(call.query, None)
    media_type = negotiate.body_type(call.headers.get("Content-Type", ""), ACCEPTED)
    schema = scope.schemas.meta("DeleteOptions")
    decoded = scheme.decode(data, media_type, DELETE_OPTIONS, scope.schemas, schema=schema, any_group=True)
    return delete_options(call.query, decoded.obj)


async def delete(call: Call, scope: Scope) -> Reply:
    options = await read_options(call, scope)
    deleted = await carry_out(call, scope, options)
    note_stored(call, deleted.entry)
    if deleted.gone and not scope.strategy.returns_deleted:
        return value_reply(call, success(scope, deleted))
    return object_reply(call, scope, deleted.entry)


async def carry_out(call: Call, scope: Scope, options: Object) -> Deleted:
    dry_run = bool(options.get("dryRun"))
    call.dry_run = dry_run
    ctx = scope.context(call, WriteOptions(dry_run))
    return await scope.store.delete(ctx, options, scope.deleting(call, ctx.name, ctx.namespace, options))


def success(scope: Scope, deleted: Deleted) -> Object:
    meta = deleted.entry.decode()["metadata"]
    gvk = scope.info.gvk
    details = {"name": meta["name"], "group": gvk.group, "kind": scope.info.plural, "uid": meta.get("uid", "")}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
