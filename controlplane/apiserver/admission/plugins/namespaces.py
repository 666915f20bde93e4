"""NamespaceExists: no write at all where the namespace is missing. Optional: NamespaceLifecycle covers creations."""

from apimachinery import errors
from controlplane.apiserver.admission.interface import Attributes, Lookup
from controlplane.apiserver.admission.plugins.base import Validating


class NamespaceExists(Validating):
    name = "NamespaceExists"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, attributes: Attributes) -> bool:
        return bool(attributes.namespace) and attributes.resource != "namespaces"

    async def validate(self, attributes: Attributes) -> None:
        if await self._lookup("namespaces", "", attributes.namespace) is None:
            raise errors.not_found("namespaces", attributes.namespace)
