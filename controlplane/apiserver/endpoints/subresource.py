"""Writes to part of an object that a kind describes itself: ``/binding``, ``/ephemeralcontainers``, ``/finalize``."""

from typing import Any

from apimachinery.meta import clone
from controlplane.apiserver.admission.interface import CREATE, UPDATE
from controlplane.apiserver.endpoints import managers
from controlplane.apiserver.endpoints.body import match_namespace, read_object
from controlplane.apiserver.endpoints.options import write_options
from controlplane.apiserver.endpoints.patch import apply_to
from controlplane.apiserver.endpoints.respond import note_stored, object_reply, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.strategy import Subresource
from controlplane.apiserver.registry.update import Write
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]


async def write_subresource(call: Call, scope: Scope, sub: Subresource) -> Reply:
    """POST or PUT: the body says what shall change; the kind says how the parent then looks."""
    options = write_options(call.query, "CreateOptions", call.headers.get("User-Agent", ""))
    body = await read_object(call, sub.kind, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    ctx = scope.context(call, options)
    own = sub.kind == scope.info.gvk
    await scope.admission.mutate(scope.attributes(call, UPDATE if own else CREATE, body, None, options.dry_run))

    async def change(old: Object) -> Object:
        new = sub.change(ctx, clone(old), clone(body))
        managers.track_update(scope, old, new, options.field_manager, sub.name, call.now)
        return new

    admit = scope.validating(call, UPDATE if own else CREATE, options.dry_run)
    entry, _ = await scope.store.update(ctx, change, admit, Write(sub.name, sub.validate))
    note_stored(call, entry)
    if own:
        return object_reply(call, scope, entry)
    return value_reply(call, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, status=201)


async def patch_subresource(call: Call, scope: Scope, sub: Subresource) -> Reply:
    """PATCH, for subresources whose body is the parent: the patched parent is taken as the body of a PUT."""
    ctx = scope.context(call, write_options(call.query, "PatchOptions", call.headers.get("User-Agent", "")))
    return await apply_to(call, scope, Write(sub.name, sub.validate), lambda old, new: sub.change(ctx, old, new))
