"""POST to a collection: decode, default, mutating admission; then the registry prepares, validates and stores."""

from controlplane.apiserver.admission.interface import CREATE
from controlplane.apiserver.endpoints import managers, owners
from controlplane.apiserver.endpoints.body import match_namespace, read_own
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.respond import check_accepts, note_stored, object_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply


async def create(call: Call, scope: Scope) -> Reply:
    check_accepts(call, scope)
    options = write_options(call.query, "CreateOptions", call.headers.get("User-Agent", ""))
    obj = await read_own(call, scope, options.field_validation)
    match_namespace(obj, call.info.namespace if scope.info.namespaced else "")
    if scope.info.namespaced:
        obj["metadata"]["namespace"] = call.info.namespace
    call.info.name = obj["metadata"].get("name") or ""
    call.dry_run = options.dry_run
    owners.fold(call, obj)
    scope.strategy.default(obj)
    managers.track_create(scope, obj, options.field_manager, call.now)
    await scope.admission.mutate(scope.attributes(call, CREATE, obj, None, options.dry_run))
    match_namespace(obj, call.info.namespace if scope.info.namespaced else "")  # whoever changed it since
    owners.fold(call, obj, patched=True)
    ctx = scope.context(call, options, call.info.name)
    entry = await scope.store.create(ctx, obj, scope.validating(call, CREATE, options.dry_run))
    note_stored(call, entry)
    return object_reply(call, scope, entry, 201)
