"""Who set which field: keeps ``metadata.managedFields`` true through creates, updates and patches. Over ``patch.apply``."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from apimachinery.patch import apply as fields
from apimachinery.patch.versions import OtherVersions
from controlplane.apiserver.endpoints.asked_versions import with_others
from controlplane.apiserver.endpoints.options import WriteOptions
from controlplane.apiserver.endpoints.scope import Scope

Object = dict[str, Any]
T = TypeVar("T")


def track_create(scope: Scope, obj: Object, manager: str, now: datetime) -> None:
    """A new object's fields belong to its creator; a status is not theirs to set where /status exists."""
    if scope.strategy.has_status:
        obj.pop("status", None)
    fields.track_update(None, obj, manager, "Update", scope.schema, now)


async def track_update(scope: Scope, old: Object, new: Object, manager: str, part: str, now: datetime) -> None:
    """What differs between ``old`` and ``new`` now belongs to ``manager``; only the part that the write may change counts."""
    what: Object = {"subresource": "" if part == "spec" else part}
    if part == "status":
        for member in [*new.keys(), *old.keys()]:
            if member not in ("status", "metadata"):
                _restore(new, old, member)
    elif part == "spec" and scope.strategy.has_status:
        _restore(new, old, "status")  # other subresources say themselves what they change: binding sets a condition
    await _with_others(
        scope, lambda others: fields.track_update(old, new, manager, "Update", scope.schema, now, others=others, **what)
    )


def check(scope: Scope, config: Object) -> None:
    """Refuse an applied configuration with fields or types that the schema does not have. Raises StatusError."""
    fields.check_types(config, scope.schema)


async def apply(scope: Scope, old: Object | None, config: Object, options: WriteOptions, part: str, now: datetime) -> Object:
    """Server-side apply. Raises the 409 that lists fields of other managers."""
    subresource = "" if part == "spec" else part
    ignored: set[str] = set()  # what this write cannot set, it cannot own
    if part == "status":
        ignored = config.keys() - {"apiVersion", "kind", "metadata", "status"}
    elif scope.strategy.has_status:
        ignored = {"status"}
    manager, force = options.field_manager, options.force
    what: Object = {"subresource": subresource, "ignored": ignored}
    return await _with_others(
        scope, lambda others: fields.apply(old, config, manager, force, scope.schema, now, others=others, **what)
    )


async def _with_others(scope: Scope, work: Callable[[OtherVersions], T]) -> T:
    """``work`` with the versions in which other managers may have written."""
    strategy = scope.strategy
    if strategy.convert is None or strategy.same_fields:
        return work(scope.other_versions)
    return await with_others(strategy, scope.siblings, strategy.convert, work)


def _restore(new: Object, old: Object, member: str) -> None:
    if member in old:
        new[member] = old[member]
    else:
        new.pop(member, None)
