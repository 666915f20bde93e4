"""PATCH in its four forms, of an object or of its status; each is computed on the newest object, again when overtaken."""

from collections.abc import Callable
from typing import Any

from apimachinery import errors, fieldpath, scheme
from apimachinery.codecs import json, negotiate, yaml
from apimachinery.meta import clone
from apimachinery.patch import json_patch, merge_patch, strategic
from apimachinery.schema import check
from controlplane.apiserver.admission.interface import CREATE, UPDATE
from controlplane.apiserver.endpoints import managers, owners
from controlplane.apiserver.endpoints.body import apart, match_name, read
from controlplane.apiserver.endpoints.options import IGNORE, STRICT, WriteOptions, write_options
from controlplane.apiserver.endpoints.respond import check_accepts, note_stored, object_reply
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.registry.update import SPEC, STATUS, Write
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Reply

_OPERATION = {"op", "path", "from", "value"}
_FINDINGS = 100  # no strict reader says more
Object = dict[str, Any]
Patcher = Callable[[Object], Object]


async def patch(call: Call, scope: Scope) -> Reply:
    return await apply_to(call, scope, SPEC)


async def patch_status(call: Call, scope: Scope) -> Reply:
    return await apply_to(call, scope, STATUS)


async def apply_to(call: Call, scope: Scope, write: Write, narrow: Callable[[Object, Object], Object] | None = None) -> Reply:
    """Patch the part of the object that ``write`` names; ``narrow(old, patched)`` keeps of the result what may change."""
    check_accepts(call, scope)
    media_type = negotiate.body_type(call.headers.get("Content-Type", ""), scope.strategy.patches)
    options = write_options(call.query, "PatchOptions", call.headers.get("User-Agent", ""))
    check_options(media_type, options, call)
    data = await read(call)
    call.dry_run = options.dry_run
    if media_type == negotiate.APPLY_YAML:
        return await _server_side_apply(call, scope, write, options, data)
    patcher = make_patcher(media_type, data, scope)
    said = [] if options.field_validation == IGNORE else await apart(data, lambda: _strict_findings(media_type, data))
    reported = False

    async def change(old: Object) -> Object:
        nonlocal reported
        new = patcher(clone(old))
        _check_result(call, scope, new, options, said, reported)
        reported = True
        match_name(new, call.info.name, call.info.namespace if scope.info.namespaced else "")
        owners.fold(call, new, patched=True)
        scope.strategy.default(new)
        if narrow is not None:
            new = narrow(clone(old), new)
        await managers.track_update(scope, old, new, options.field_manager, write.part, call.now)
        await scope.admission.mutate(scope.attributes(call, UPDATE, new, old, options.dry_run))
        return new

    admit = scope.validating(call, UPDATE, options.dry_run)
    entry, _ = await scope.store.update(scope.context(call, options), change, admit, write)
    note_stored(call, entry)
    return object_reply(call, scope, entry)


def check_options(media_type: str, options: WriteOptions, call: Call) -> None:
    """Apply needs a field manager; force is for apply alone."""
    found = []
    if media_type == negotiate.APPLY_YAML:
        if not call.query.get("fieldManager"):
            found.append(fieldpath.required("fieldManager", "is required for apply patch"))
    elif "force" in call.query:
        found.append(fieldpath.forbidden("force", "may not be specified for non-apply patch"))
    if found:
        raise errors.invalid("PatchOptions", "", found, "meta.k8s.io")


def make_patcher(media_type: str, data: bytes, scope: Scope) -> Patcher:
    """Parse the patch once; the result may be applied again and again."""
    value = json.decode(data)
    if media_type == negotiate.JSON_PATCH:
        return lambda old: json_patch.apply(old, value)
    if media_type == negotiate.MERGE_PATCH:
        return lambda old: merge_patch.apply(old, value)
    return lambda old: strategic.apply(old, clone(value) if isinstance(value, dict) else value, scope.schema)


def _strict_findings(media_type: str, data: bytes) -> list[str]:
    """What a strict reader says of the patch itself: keys given twice, and parts that no operation of a JSON patch has."""
    value = json.decode(data)
    repeated = [] if json.is_written_as(value, data) else json.duplicate_keys(data)
    if media_type != negotiate.JSON_PATCH:
        return repeated
    unknown = [
        f'unknown field "[{index}].{key}"'
        for index, operation in enumerate(value if isinstance(value, list) else ())
        if isinstance(operation, dict)
        for key in operation.keys() - _OPERATION
    ]
    return [f"json patch {text}" for text in (*unknown, *repeated)][:_FINDINGS]


def _check_result(call: Call, scope: Scope, new: Object, options: WriteOptions, said: list[str], reported: bool) -> None:
    """Bring the patched object to its normal form; refuse wrong types, report unknown fields (after what is ``said``) once."""
    if not isinstance(new.get("metadata"), dict):
        new["metadata"] = {}
    gvk = scope.info.gvk
    if (new.get("apiVersion"), new.get("kind")) != (gvk.api_version, gvk.kind):
        claimed = f"{new.get('apiVersion')}, Kind={new.get('kind')}"
        raise _unusable(new, f"converting ({claimed}) to ({gvk.api_version}, Kind={gvk.kind}): unknown conversion")
    own = scope.strategy.normalize
    if own is None and (wrong := check.type_errors(new, scope.schema)):
        raise _unusable(new, wrong[0])
    patched = clone(new) if own is not None or options.field_validation == STRICT else new
    found = scope.normalize(new)
    if found.type_errors:
        raise _unusable(patched, found.type_errors[0])
    findings = [*said, *found.unknown]
    if findings and options.field_validation == STRICT:
        raise _unusable(patched, f"strict decoding error: {', '.join(findings)}")
    if findings and options.field_validation != IGNORE and not reported:
        call.warnings.extend(findings)


def _unusable(patched: Object, why: str) -> errors.StatusError:
    """The 422 for a patch whose result is no object of its kind; upstream names neither kind nor object in it."""
    return errors.invalid("", "", [fieldpath.invalid("patch", json.encode(patched).decode(), why)])


async def _server_side_apply(call: Call, scope: Scope, write: Write, options: WriteOptions, data: bytes) -> Reply:
    try:
        value, repeated = await apart(data, lambda: yaml.decode_strict(data))
    except errors.StatusError as problem:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {problem.message}") from None
    if not isinstance(value, dict):
        raise errors.bad_request("error decoding YAML: the body of an apply patch must be an object")
    gvk = scope.info.gvk
    version = value.get("apiVersion") or ""
    if version != gvk.api_version:
        text = f"Incorrect version specified in apply patch. Specified patch version: {version}, expected: {gvk.api_version}"
        raise errors.bad_request(text)
    if not value.get("kind"):
        raise errors.bad_request(f"Object 'Kind' is missing in '{json.encode(value).decode()}'")
    if value["kind"] == gvk.kind:
        managers.check(scope, value)
    own = scope.strategy.normalize
    if own is not None:
        decoded = await apart(data, lambda: scheme.decode_own(json.encode(value), negotiate.JSON, gvk, own))
    else:
        decoded = await apart(data, lambda: scheme.decode(json.encode(value), negotiate.JSON, gvk, scope.schemas))
    strict = decoded.strict + repeated
    if strict and options.field_validation != IGNORE:
        if options.field_validation == STRICT:
            raise errors.bad_request(f"strict decoding error: {', '.join(strict)}")
        call.warnings.extend(strict)
    config = decoded.obj
    meta = config.setdefault("metadata", {})
    meta.setdefault("name", call.info.name)
    if scope.info.namespaced:
        meta.setdefault("namespace", call.info.namespace)
    match_name(config, call.info.name, call.info.namespace if scope.info.namespaced else "")

    async def change(old: Object) -> Object:
        creating = not old
        new = await managers.apply(scope, old or None, clone(config), options, write.part, call.now)
        scope.strategy.default(new)
        operation = CREATE if creating else UPDATE
        attributes = scope.attributes(call, operation, new, None if creating else old, options.dry_run)
        await scope.admission.mutate(attributes)
        return new

    admit = scope.validating(call, UPDATE, options.dry_run)
    on_missing = change if write is SPEC else None
    entry, created = await scope.store.update(scope.context(call, options), change, admit, write, on_missing=on_missing)
    note_stored(call, entry)
    return object_reply(call, scope, entry, 201 if created else 200)
