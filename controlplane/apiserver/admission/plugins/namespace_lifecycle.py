"""NamespaceLifecycle: nothing is created in a namespace that does not exist or is going away; three cannot be deleted."""

from apimachinery import errors
from controlplane.apiserver.admission.interface import CREATE, DELETE, Attributes, Lookup, refuse

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_ACCESS_REVIEWS = frozenset({"localsubjectaccessreviews"})


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation == DELETE:
            return attributes.resource == "namespaces" and not attributes.kind.group
        if attributes.operation != CREATE or attributes.subresource:
            return False
        return bool(attributes.namespace) and attributes.resource != "namespaces" and attributes.resource not in _ACCESS_REVIEWS

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.operation == DELETE:
            if attributes.name in IMMORTAL:
                raise refuse(attributes, "this namespace may not be deleted")
            return
        namespace = await self._lookup("namespaces", "", attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", attributes.namespace)
        if (namespace.get("status") or {}).get("phase") == "Terminating" or namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
            refusal = refuse(attributes, why)
            assert isinstance(refusal, errors.StatusError)
            text = f"namespace {attributes.namespace} is being terminated"
            refusal.status.setdefault("details", {})["causes"] = [
                {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
            ]
            raise refusal

    async def validate(self, attributes: Attributes) -> None:
        """Everything is decided before the strategy runs."""
        if attributes.operation == DELETE:
            await self.mutate(attributes)
