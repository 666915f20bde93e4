"""The chain that runs admission plugins over a write; ``catalog`` says which there are and in which order."""

import time
from collections.abc import Awaitable, Callable, Sequence

from controlplane.apiserver.admission.interface import Attributes, Plugin
from controlplane.apiserver.admission.metrics import ADMIT, VALIDATE, AdmissionMetrics


class AdmissionChain:
    """Runs every plugin that handles a write; the first refusal ends it."""

    def __init__(self, members: Sequence[Plugin], metrics: AdmissionMetrics | None = None) -> None:
        self._members = tuple(members)
        self._metrics = metrics or AdmissionMetrics()

    async def mutate(self, attributes: Attributes) -> None:
        """A second time, and no more, when a webhook or a policy has changed the object: the others may want a say again."""
        await self._run(ADMIT, attributes, lambda plugin: plugin.mutate(attributes))
        again = attributes.reinvocation
        if again.wanted and not again.under_way:
            again.under_way = True
            await self._run(ADMIT, attributes, lambda plugin: plugin.mutate(attributes))

    async def validate(self, attributes: Attributes) -> None:
        await self._run(VALIDATE, attributes, lambda plugin: plugin.validate(attributes))

    async def _run(self, phase: str, attributes: Attributes, ask: Callable[[Plugin], Awaitable[None]]) -> None:
        metrics, operation = self._metrics, attributes.operation
        begun = last = time.perf_counter()
        rejected = True
        try:
            for plugin in self._members:
                if not plugin.handles(attributes):
                    continue
                refused = True
                try:
                    await ask(plugin)
                    refused = False
                finally:
                    now = time.perf_counter()
                    metrics.plugin(plugin.name, phase, operation, refused, now - last)
                    last = now
            rejected = False
        finally:
            metrics.step(phase, operation, rejected, last - begun)
