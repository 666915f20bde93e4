"""The ``/scale`` subresource of everything with replicas: an ``autoscaling/v1`` Scale read from and written to the parent."""

from collections.abc import Callable
from typing import Any

from apimachinery import errors, fieldpath, labels
from apimachinery.codecs import json, negotiate, yaml
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import clone
from apimachinery.patch import json_patch, merge_patch, strategic
from apimachinery.schema import check
from controlplane.apiserver.admission.interface import UPDATE
from controlplane.apiserver.endpoints import managers
from controlplane.apiserver.endpoints.body import match_name, read, read_object
from controlplane.apiserver.endpoints.options import WriteOptions, write_options
from controlplane.apiserver.endpoints.patch import check_options
from controlplane.apiserver.endpoints.respond import note_stored, value_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.strategy import Replicas
from controlplane.apiserver.registry.update import Write
from controlplane.apiserver.storage.interface import Entry
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

Object = dict[str, Any]

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class _InSpec:
    """Where the release's own kinds have their replicas."""

    def spec(self, obj: Object) -> int:
        return (obj.get("spec") or {}).get("replicas") or 0

    def status(self, obj: Object) -> int:
        return (obj.get("status") or {}).get("replicas") or 0

    def selector(self, obj: Object) -> str:
        selector = (obj.get("spec") or {}).get("selector")
        if not selector:
            return ""
        structured = "matchLabels" in selector or "matchExpressions" in selector
        return str(labels.from_label_selector(selector) if structured else labels.from_map(selector))

    def set(self, obj: Object, replicas: int) -> Object:
        return {**obj, "spec": {**(obj.get("spec") or {}), "replicas": replicas}}


IN_SPEC = _InSpec()


def scale_of(parent: Object, replicas: Replicas = IN_SPEC) -> Object:
    """The parent's Scale."""
    meta = parent["metadata"]
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if name in meta}
    made: Object = {"apiVersion": SCALE.api_version, "kind": "Scale", "metadata": kept, "spec": {}, "status": {}}
    if wanted := replicas.spec(parent):
        made["spec"]["replicas"] = wanted
    made["status"]["replicas"] = replicas.status(parent)
    if selector := replicas.selector(parent):
        made["status"]["selector"] = selector
    return made


def _answer(call: Call, scope: Scope, entry: Entry) -> Reply:
    return value_reply(call, scale_of(entry.decode(), scope.strategy.replicas or IN_SPEC))


async def get_scale(call: Call, scope: Scope) -> Reply:
    return _answer(call, scope, await scope.store.get(call.info.namespace, call.info.name, call.query.get("resourceVersion", "")))


async def update_scale(call: Call, scope: Scope) -> Reply:
    options = write_options(call.query, "UpdateOptions", call.headers.get("User-Agent", ""))
    wanted = await read_object(call, SCALE, scope.schemas, options.field_validation)
    match_name(wanted, call.info.name, call.info.namespace)
    return await _store(call, scope, lambda _: clone(wanted), options)


async def patch_scale(call: Call, scope: Scope) -> Reply:
    media_type = negotiate.body_type(call.headers.get("Content-Type", ""), scope.strategy.patches)
    options = write_options(call.query, "PatchOptions", call.headers.get("User-Agent", ""))
    check_options(media_type, options, call)
    data = await read(call)
    if media_type == negotiate.APPLY_YAML:
        config = _configuration(yaml.decode(data))
        match_name(config, call.info.name, call.info.namespace)
        return await _store(call, scope, lambda scale: merge_patch.apply(scale, config), options, apply=True)
    value = json.decode(data)
    schema = scope.schemas.of(SCALE)

    def patched(scale: Object) -> Object:
        if media_type == negotiate.JSON_PATCH:
            return json_patch.apply(scale, value)
        if media_type == negotiate.MERGE_PATCH:
            return merge_patch.apply(scale, value)
        return strategic.apply(scale, value, schema)

    return await _store(call, scope, patched, options)


def _configuration(value: Any) -> Object:
    """A Scale that is applied. Raises 400 for what is none."""
    if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != (SCALE.api_version, SCALE.kind):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type Scale, {SCALE.api_version})")
    return {**value, "metadata": value.get("metadata") if isinstance(value.get("metadata"), dict) else {}}


async def _store(
    call: Call, scope: Scope, make: Callable[[Object], Object], options: WriteOptions, *, apply: bool = False
) -> Reply:
    """Set what the Scale that ``make`` gives says; as the manager's applied configuration, or as an update."""
    where = scope.strategy.replicas or IN_SPEC

    async def change(old: Object) -> Object:
        held = scale_of(old, where)
        wanted = make(held)
        _check_types(scope, wanted)
        await scope.admission.mutate(scope.attributes(call, UPDATE, wanted, held, options.dry_run, SCALE))
        replicas = _replicas(call, wanted)
        if apply:
            new = await managers.apply(scope, old, where.set(_bare(old), replicas), options, "scale", call.now)
        else:
            new = {**where.set(old, replicas), "metadata": dict(old["metadata"])}
        version = wanted["metadata"].get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        uid = wanted["metadata"].get("uid")
        if uid:
            new["metadata"]["uid"] = uid
        if not apply:
            await managers.track_update(scope, old, new, options.field_manager, "scale", call.now)
        return new

    async def admit(new: Object, old: Object | None) -> None:
        shown = scale_of(new, where), scale_of(old or {}, where)
        await scope.admission.validate(scope.attributes(call, UPDATE, *shown, options.dry_run, SCALE))

    write = Write("scale", lambda ctx, new, old: scope.strategy.validate_update(ctx, new, old))
    entry, _ = await scope.store.update(scope.context(call, options), change, admit, write)
    note_stored(call, entry)
    return _answer(call, scope, entry)


def _bare(obj: Object) -> Object:
    """Nothing but which object it is."""
    names = {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": names}


def _check_types(scope: Scope, wanted: Object) -> None:
    """Raises 400."""
    findings = check.normalize(wanted, scope.schemas.of(SCALE))
    if findings.type_errors:
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {findings.type_errors[0]}')


def _replicas(call: Call, wanted: Object) -> int:
    """The wanted number. Raises 422 for a negative one."""
    replicas = int((wanted.get("spec") or {}).get("replicas") or 0)
    if replicas < 0:
        wrong = fieldpath.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", call.info.name, [wrong], SCALE.group)
    return replicas
