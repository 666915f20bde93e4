"""NamespaceAutoProvision: a namespace that is written to and missing is made. Optional, for clusters that want it so."""

from controlplane.apiserver.admission.interface import CREATE, Attributes, Lookup, MakeNamespace
from controlplane.apiserver.admission.plugins.base import Mutating


class NamespaceAutoProvision(Mutating):
    name = "NamespaceAutoProvision"

    def __init__(self, lookup: Lookup, make: MakeNamespace) -> None:
        self._lookup, self._make = lookup, make

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == CREATE and bool(attributes.namespace) and attributes.resource != "namespaces"

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.dry_run or await self._lookup("namespaces", "", attributes.namespace) is not None:
            return
        await self._make(attributes.namespace)
