"""The record of who manages which field, after somebody has changed an object in admission. Called by webhooks and policies."""

from apimachinery.patch import managers
from controlplane.apiserver.admission.interface import Object

_UNREADABLE = (
    ".metadata.managedFields was in an invalid state after admission; "
    "this could be caused by an outdated mutating admission controller; please fix your requests"
)


def keep_managers(made: Object, shown: Object, warnings: list[str]) -> None:
    """Those of ``made`` that nobody could read are put back to what they were."""
    meta, before = made.get("metadata") or {}, (shown.get("metadata") or {}).get("managedFields")
    if meta.get("managedFields") == before or managers.decode(meta.get("managedFields")) is not None:
        return
    warnings.append(_UNREADABLE)
    meta.pop("managedFields", None)
    if before is not None:
        meta["managedFields"] = before
