"""What the tests of policies share: a request, and an authorizer that remembers what it was asked."""

import asyncio
from typing import Any

from apimachinery.gvk import GroupVersionKind, GroupVersionResource
from controlplane.apiserver.admission.interface import CREATE, Attributes
from controlplane.apiserver.admission.policy import view
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes as Asked
from controlplane.apiserver.authorization.interface import Decision

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
JANE = UserInfo("jane", groups=("team",), extra={"role": ["dev"]})
NAMESPACE = {
    "metadata": {"name": "team", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"tier": "gold"}},
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Active"},
}
OBJECT: dict[str, Any] = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"replicas": 3}}


class Authorizer:
    """Allows everything but deletions, after a turn of the loop."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def authorize(self, attributes: Asked) -> tuple[Decision, str]:
        await asyncio.sleep(0)
        self.asked.append(attributes)
        if attributes.verb == "explode":
            raise RuntimeError("broken")
        return (Decision.NO_OPINION if attributes.verb == "delete" else Decision.ALLOW), "because"


def attributes(obj: dict[str, Any] | None = OBJECT, old: dict[str, Any] | None = None, operation: str = CREATE) -> Attributes:
    return Attributes(operation, DEPLOYMENT, "deployments", "", "team", "web", obj, old, JANE)


def values(found: Attributes | None = None, **more: Any) -> dict[str, Any]:
    found = found or attributes()
    request = view.request_of(found, DEPLOYMENT, DEPLOYMENTS)
    return {**view.values_of(found, request, NAMESPACE, found.obj, found.old), **more}
