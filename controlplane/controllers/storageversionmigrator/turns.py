"""Whose turn it is among the migrations of one resource, and what their conditions say. Pure; ``controller`` calls it."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, condition_status, name_of, set_condition

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"


def resource_of(migration: Mapping[str, Any]) -> str:
    """``plural.group``, or the plural alone: the key of the controller's queue, and the name of a definition."""
    resource = (migration.get("spec") or {}).get("resource") or {}
    return ".".join(part for part in (resource.get("resource"), resource.get("group")) if part)


def is_over(migration: Mapping[str, Any]) -> bool:
    return "True" in (condition_status(migration, SUCCEEDED), condition_status(migration, FAILED))


def is_running(migration: Mapping[str, Any]) -> bool:
    return condition_status(migration, RUNNING) == "True"


def next_of(migrations: Iterable[Object]) -> Object | None:
    """The one that runs; else the oldest that waits."""
    waiting = sorted((each for each in migrations if not is_over(each)), key=_order)
    return next((each for each in waiting if is_running(each)), waiting[0] if waiting else None)


def _order(migration: Object) -> tuple[str, str]:
    return str(migration["metadata"].get("creationTimestamp") or ""), name_of(migration)


def begin(migration: Object, now: datetime) -> None:
    set_condition(migration, RUNNING, "True", now=now, reason="MigrationRunning", message="The migration is running")


def go_on(migration: Object, version: str, now: datetime) -> None:
    """``version``: what is newer than this collection is in the new form already."""
    migration["status"]["resourceVersion"] = version
    set_condition(migration, RUNNING, "True", now=now, reason="StorageVersionMigrationInProgress")
    _complete(migration)


def end(migration: Object, failure: str | None, now: datetime) -> None:
    if failure is None:
        set_condition(migration, SUCCEEDED, "True", now=now, reason="StorageVersionMigrationSucceeded")
    else:
        text = f"migration encountered unhandled error: {failure}"
        set_condition(migration, FAILED, "True", now=now, reason="StorageVersionMigrationFailed", message=text)
    set_condition(migration, RUNNING, "False", now=now, reason="MigrationCompleted", message="Migration completed")
    _complete(migration)


def _complete(migration: Object) -> None:
    """A ``metav1.Condition`` has a message, if an empty one."""
    for condition in migration["status"]["conditions"]:
        condition.setdefault("message", "")
