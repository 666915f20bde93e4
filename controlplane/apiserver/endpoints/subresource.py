"""Writes to part of an object that a kind describes itself: ``/binding``, ``/ephemeralcontainers``, ``/finalize``."""

from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import clone
from controlplane.apiserver.admission.interface import CREATE, UPDATE
from controlplane.apiserver.endpoints import managers
from controlplane.apiserver.endpoints.body import match_name, match_namespace, read_object
from controlplane.apiserver.endpoints.options import WriteOptions, write_options
from controlplane.apiserver.endpoints.patch import apply_to
from controlplane.apiserver.endpoints.respond import note_stored, object_reply, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.strategy import ResourceInfo, Subresource
from controlplane.apiserver.registry.update import Write
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]

BINDINGS = ResourceInfo(GroupVersionKind("", "v1", "Binding"), "bindings", "binding", True, verbs=("create",))
"""The old door to ``pods/NAME/binding``."""


async def write_subresource(call: Call, scope: Scope, sub: Subresource) -> Reply:
    """POST or PUT: the body says what shall change; the kind says how the parent then looks."""
    options = write_options(call.query, "CreateOptions", call.headers.get("User-Agent", ""))
    body = await read_object(call, sub.kind, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    if sub.kind == scope.info.gvk:
        match_name(body, call.info.name, call.info.namespace if scope.info.namespaced else "")
    return await _write(call, scope, sub, body, options)


async def write_by_body(call: Call, scope: Scope, sub: Subresource) -> Reply:
    """POST to a collection of its own (``bindings``): the parent's name is the body's."""
    options = write_options(call.query, "CreateOptions", call.headers.get("User-Agent", ""))
    body = await read_object(call, sub.kind, scope.schemas, options.field_validation)
    match_namespace(body, call.info.namespace)
    call.info.name = body["metadata"].get("name") or ""
    if not call.info.name:
        missing = fieldpath.required("metadata.name", "name is required")
        raise errors.invalid(sub.kind.kind, "", [missing], sub.kind.group)
    return await _write(call, scope, sub, body, options)


async def _write(call: Call, scope: Scope, sub: Subresource, body: Object, options: WriteOptions) -> Reply:
    ctx = scope.context(call, options)
    own = sub.kind == scope.info.gvk
    if not own:  # admission is asked about what was sent, not about what becomes of the parent
        attributes = scope.attributes(call, CREATE, body, None, options.dry_run, sub.kind)
        await scope.admission.mutate(attributes)
        await scope.admission.validate(attributes)

    async def change(old: Object) -> Object:
        wanted = clone(body)
        if own:
            await scope.admission.mutate(scope.attributes(call, UPDATE, wanted, old, options.dry_run))
        new = sub.change(ctx, clone(old), wanted)
        if own and body["metadata"].get("resourceVersion"):
            new["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"]  # checked by the registry
        await managers.track_update(scope, old, new, options.field_manager, sub.name, call.now)
        return new

    async def asked(obj: Object, old: Object | None) -> None:
        """Validating admission has had its say."""

    admit = scope.validating(call, UPDATE, options.dry_run) if own else asked
    entry, _ = await scope.store.update(ctx, change, admit, Write(sub.name, sub.validate))
    note_stored(call, entry)
    if own:
        return object_reply(call, scope, entry)
    return value_reply(call, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, status=201)


async def patch_subresource(call: Call, scope: Scope, sub: Subresource) -> Reply:
    """PATCH, for subresources whose body is the parent: the patched parent is taken as the body of a PUT."""
    ctx = scope.context(call, write_options(call.query, "PatchOptions", call.headers.get("User-Agent", "")))
    return await apply_to(call, scope, Write(sub.name, sub.validate), lambda old, new: sub.change(ctx, old, new))
