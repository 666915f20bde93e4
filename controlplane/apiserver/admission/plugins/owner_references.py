"""OwnerReferencesPermissionEnforcement: only who may delete an object may change whose it is. Optional."""

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Object, refuse
from controlplane.apiserver.admission.plugins.base import Validating
from controlplane.apiserver.authorization.interface import Attributes as Question
from controlplane.apiserver.authorization.interface import Authorizer, Decision


class OwnerReferencesPermissionEnforcement(Validating):
    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation not in (CREATE, UPDATE) or attributes.obj is None:
            return False
        return _owners(attributes.obj) != _owners(attributes.old)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation == CREATE:  # who makes an object may say whose it is
            return
        group, kind = attributes.kind.group, attributes.kind.version
        name, namespace = attributes.name, attributes.namespace
        asked = Question(attributes.user, "delete", "", True, group, kind, attributes.resource, "", namespace, name)
        decision, _ = await self._authorizer.authorize(asked)
        if decision is not Decision.ALLOW:
            raise refuse(attributes, "cannot set an ownerRef on a resource you can't delete: , <nil>")


def _owners(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
