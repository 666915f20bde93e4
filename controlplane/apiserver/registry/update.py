"""What an update may change: the checks and the restoring between the client's wish and validation. Called by ``store``.

``SPEC`` keeps the stored status; ``STATUS`` keeps everything but the status; subresources bring their own validation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.registry import metadata as rules
from controlplane.apiserver.registry import naming
from controlplane.apiserver.registry.strategy import Context, Strategy

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
    """Which part of an object a write is about."""

    part: str  # spec, status, or the name of a subresource
    validate: Callable[[Context, Object, Object], list[FieldError]] | None = None


SPEC = Write("spec")
STATUS = Write("status")


def prepare(strategy: Strategy, ctx: Context, new: Object, old: Object, write: Write) -> None:
    """Bring ``new`` to what will be stored, in place, or raise 409 or 422."""
    _check_version(strategy, ctx, new, old)
    rules.inherit_system_fields(new, old)
    if write.part == "status":
        _keep_all_but_status(new, old)
        strategy.prepare_for_status_update(ctx, new, old)
        found = strategy.validate_status_update(ctx, new, old)
    elif write.part == "spec":
        if strategy.has_status:
            _restore(new, old, "status")
        strategy.disabled_fields.drop(new, old)
        strategy.prepare_for_update(ctx, new, old)
        if strategy.has_generation and strategy.spec_changed(new, old):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        found = strategy.validate_update(ctx, new, old)
    else:
        if strategy.has_generation and strategy.spec_changed(new, old):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        found = write.validate(ctx, new, old) if write.validate else []
    info = strategy.info
    valid = rules.validate(new, info.namespaced, strategy.name_is_valid, any_finalizer=strategy.any_finalizer)
    found = rules.validate_update(new, old) + valid + found
    if found:
        raise errors.invalid(info.gvk.kind, ctx.name, found, info.gvk.group)
    ctx.warnings.extend(strategy.warnings(ctx, new, old))
    strategy.canonicalize(new)


def _check_version(strategy: Strategy, ctx: Context, new: Object, old: Object) -> None:
    info = strategy.info
    meta = new["metadata"]
    wanted, held = str(meta.get("resourceVersion") or ""), str(old["metadata"].get("resourceVersion") or "")
    if wanted in ("", "0"):
        if not strategy.allow_unconditional_update:
            missing = fieldpath.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(info.gvk.kind, ctx.name, [missing], info.gvk.group)
        meta["resourceVersion"] = held
    elif not wanted.isdecimal():
        text = f'strconv.ParseUint: parsing "{wanted}": invalid syntax'
        bad = fieldpath.invalid("metadata.resourceVersion", wanted, text)
        raise errors.invalid(info.gvk.kind, ctx.name, [bad], info.gvk.group)
    elif wanted != held:
        raise errors.conflict(info.plural, ctx.name, errors.OPTIMISTIC_LOCK, info.gvk.group)
    uid, stored_uid = meta.get("uid"), old["metadata"].get("uid")
    if uid and uid != stored_uid:
        if ctx.verb == "patch":  # what a PUT says is a precondition, a patch would change
            changed = fieldpath.invalid("metadata.uid", uid, "field is immutable")
            raise errors.invalid(info.gvk.kind, ctx.name, [changed], info.gvk.group)
        where = naming.key(naming.prefix_of(info), info.namespaced, ctx.namespace, ctx.name)
        invalid = f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0"
        why = f"{invalid}, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"
        raise errors.conflict(info.plural, ctx.name, why, info.gvk.group)


def _restore(new: Object, old: Object, member: str) -> None:
    if member in old:
        new[member] = old[member]
    else:
        new.pop(member, None)


_STATUS_METADATA = ("labels", "annotations", "managedFields", "resourceVersion", "finalizers")


def _keep_all_but_status(new: Object, old: Object) -> None:
    """A write to /status may change the status, and the metadata that upstream lets it change."""
    for member in [*new.keys(), *old.keys()]:
        if member not in ("status", "metadata"):
            _restore(new, old, member)
    wanted = new["metadata"]
    new["metadata"] = {**old["metadata"], **{name: wanted[name] for name in _STATUS_METADATA if name in wanted}}
    for name in ("labels", "annotations", "finalizers"):
        if name not in wanted:
            new["metadata"].pop(name, None)
