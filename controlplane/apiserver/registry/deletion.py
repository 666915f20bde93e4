"""What a DELETE does to an object: remove it, mark it, or leave it as it is. Pure; ``store`` carries the outcome out.

Follows k8s.io/apiserver ``pkg/registry/rest/delete.go`` and the finalizer rules of ``generic/registry/store.go``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from apimachinery.times import format_time, parse_time

Object = dict[str, Any]


class Outcome(Enum):
    REMOVE = "remove"
    MARK = "mark"  # store the changed object: a grace period or finalizers are left
    KEEP = "keep"  # already on its way; nothing to change


def validate_options(options: Object) -> None:
    """Raises 422 for DeleteOptions that contradict themselves."""
    found = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(fieldpath.invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in ("Foreground", "Background", "Orphan"):
        # in upstream's order, which is not the sorted one
        text = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        found.append(FieldError("FieldValueNotSupported", "propagationPolicy", policy, text))
    if found:
        raise errors.invalid("DeleteOptions", "", found, "meta.k8s.io")


def check_preconditions(options: Object, obj: Object, conflict: Callable[[str], Exception]) -> None:
    """Raises what ``conflict`` makes of the sentence when uid or resourceVersion are not what the client expects."""
    wanted = options.get("preconditions") or {}
    meta = obj["metadata"]
    for field, label, guess in (("uid", "UID", "deleted and then recreated"), ("resourceVersion", "ResourceVersion", "modified")):
        if wanted.get(field) and wanted[field] != meta.get(field):
            found = (
                f"the {label} in the precondition ({wanted[field]}) does not match the {label} in record ({meta.get(field, '')})"
            )
            raise conflict(f"{found}. The object might have been {guess}")


def mark(obj: Object, options: Object, now: datetime, begin: Callable[[Object, Object], bool]) -> bool:
    """Set or shorten the deletion timestamp for graceful kinds; False when nothing may change (already pending).

    ``begin(obj, options)`` is the strategy's: whether deletion is graceful, with the grace period put into ``options``.
    """
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        left = meta.get("deletionGracePeriodSeconds") or 0
        if not left:
            return True
        asked = options.get("gracePeriodSeconds")
        if asked is None or asked >= left:
            return False
        asked = max(asked, 0)
        moved = parse_time(meta["deletionTimestamp"]) + timedelta(seconds=asked - left)
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = format_time(moved), asked
        return True
    if begin(obj, options):
        grace = max(options.get("gracePeriodSeconds") or 0, 0)
        _bump_generation(meta)
        meta["deletionTimestamp"] = format_time(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
    return True


def mark_now(obj: Object, now: datetime) -> None:
    """For kinds without grace that must wait for finalizers."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        _bump_generation(meta)
        meta["deletionTimestamp"] = format_time(now)
        meta["deletionGracePeriodSeconds"] = 0


def _bump_generation(meta: Object) -> None:
    if meta.get("generation"):
        meta["generation"] += 1


def set_collection_finalizers(obj: Object, options: Object, orphan_by_default: bool = False) -> None:
    """Add or take away the garbage collector's finalizers as the propagation policy asks."""
    meta = obj["metadata"]
    held = list(meta.get("finalizers") or [])
    policy, orphan_flag = options.get("propagationPolicy"), options.get("orphanDependents")
    if policy or orphan_flag is not None:
        orphan, foreground = policy == "Orphan" or orphan_flag is True, policy == "Foreground"
    else:
        foreground = FOREGROUND_FINALIZER in held
        orphan = ORPHAN_FINALIZER in held or (orphan_by_default and not foreground)
    wanted = [one for one in held if one not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    if orphan:
        wanted.append(ORPHAN_FINALIZER)
    if foreground:
        wanted.append(FOREGROUND_FINALIZER)
    if wanted:
        meta["finalizers"] = wanted
    else:
        meta.pop("finalizers", None)


def ready_to_go(obj: Object) -> bool:
    """No finalizers and no grace left on an object that is being deleted."""
    meta = obj["metadata"]
    return bool(meta.get("deletionTimestamp")) and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")
