"""DeviceAdminAccess: claims for devices that others use (``adminAccess``) are made only in namespaces that are marked for it.

Upstream does this in the storage of ResourceClaims and ResourceClaimTemplates (KEP-5018); as a validating plugin it stands in the
same place of the road.
"""

from apimachinery import errors, fieldpath
from apimachinery.meta import labels_of, name_of
from apimachinery.objects import claims
from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Lookup
from controlplane.apiserver.admission.plugins.base import Validating

LABEL = "resource.kubernetes.io/admin-access"
_KINDS = frozenset({"resourceclaims", "resourceclaimtemplates"})
_WHY = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


class DeviceAdminAccess(Validating):
    name = "DeviceAdminAccess"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.kind.group == claims.GROUP
            and attributes.resource in _KINDS
            and (attributes.operation == CREATE or (attributes.operation == UPDATE and attributes.subresource == "status"))
        )

    async def validate(self, attributes: Attributes) -> None:
        obj = attributes.obj or {}
        if attributes.subresource == "status":
            wanted = _is_seen(obj) and not _is_seen(attributes.old or {})
        else:
            spec = obj.get("spec") or {}
            wanted = claims.needs_admin((spec.get("spec") or {}) if attributes.resource == "resourceclaimtemplates" else spec)
        if not wanted:
            return
        namespace = await self._lookup("namespaces", "", attributes.namespace)
        if namespace is None or labels_of(namespace).get(LABEL) != "true":
            problem = fieldpath.forbidden("", _WHY)
            raise errors.invalid(attributes.kind.kind, name_of(obj), [problem], attributes.kind.group)


def _is_seen(claim: dict[str, object]) -> bool:
    return any(result.get("adminAccess") for result in claims.results_of(claim))
