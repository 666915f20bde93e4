"""The chain that runs admission plugins over a write; ``catalog`` says which there are and in which order."""

from collections.abc import Sequence

from controlplane.apiserver.admission.interface import Attributes, Plugin


class AdmissionChain:
    """Runs every plugin that handles a write; the first refusal ends it."""

    def __init__(self, members: Sequence[Plugin]) -> None:
        self._members = tuple(members)

    async def mutate(self, attributes: Attributes) -> None:
        for plugin in self._members:
            if plugin.handles(attributes):
                await plugin.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._members:
            if plugin.handles(attributes):
                await plugin.validate(attributes)
