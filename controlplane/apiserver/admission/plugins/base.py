"""What most plugins leave out: one of the two halves."""

from controlplane.apiserver.admission.interface import Attributes


class Mutating:
    """Changes objects and refuses while at it; has nothing to say afterwards."""

    async def validate(self, attributes: Attributes) -> None:
        """Everything is decided while mutating."""


class Validating:
    """Looks at what will be stored."""

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""
