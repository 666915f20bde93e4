"""PUT of one object or of its status: the body replaces what is stored, if it was made from the newest version."""

from typing import Any

from apimachinery.meta import clone
from controlplane.apiserver.admission.interface import CREATE, UPDATE
from controlplane.apiserver.endpoints import managers, owners
from controlplane.apiserver.endpoints.body import match_name, read_own
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.respond import check_accepts, note_stored, object_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.update import SPEC, STATUS, Write
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]


async def update(call: Call, scope: Scope) -> Reply:
    return await replace(call, scope, SPEC)


async def update_status(call: Call, scope: Scope) -> Reply:
    return await replace(call, scope, STATUS)


async def replace(call: Call, scope: Scope, write: Write) -> Reply:
    """The body takes the place of what is stored, as far as ``write`` allows."""
    check_accepts(call, scope)
    options = write_options(call.query, "UpdateOptions", call.headers.get("User-Agent", ""))
    body = await read_own(call, scope, options.field_validation)
    match_name(body, call.info.name, call.info.namespace if scope.info.namespaced else "")
    if scope.info.namespaced:
        body["metadata"]["namespace"] = call.info.namespace
    owners.fold(call, body)
    scope.strategy.default(body)
    call.dry_run = options.dry_run

    async def change(old: Object) -> Object:
        new = clone(body)
        await managers.track_update(scope, old, new, options.field_manager, write.part, call.now)
        operation = UPDATE if old else CREATE
        await scope.admission.mutate(scope.attributes(call, operation, new, old or None, options.dry_run))
        owners.fold(call, new, patched=True)
        return new

    admit = scope.validating(call, UPDATE, options.dry_run)
    create = change if scope.strategy.allow_create_on_update and write is SPEC else None
    entry, created = await scope.store.update(scope.context(call, options), change, admit, write, on_missing=create)
    note_stored(call, entry)
    return object_reply(call, scope, entry, 201 if created else 200)
