"""AlwaysAdmit and AlwaysDeny: for trying things out."""

from controlplane.apiserver.admission.interface import Attributes, refuse
from controlplane.apiserver.admission.plugins.base import Mutating, Validating


class AlwaysAdmit(Mutating):
    name = "AlwaysAdmit"

    def handles(self, attributes: Attributes) -> bool:
        return False

    async def mutate(self, attributes: Attributes) -> None:
        """Never called."""


class AlwaysDeny(Validating):
    name = "AlwaysDeny"

    def handles(self, attributes: Attributes) -> bool:
        return True

    async def validate(self, attributes: Attributes) -> None:
        raise refuse(attributes, "admission control is denying all modifications")
