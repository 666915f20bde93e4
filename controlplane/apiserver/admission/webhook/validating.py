"""ValidatingAdmissionWebhook: all webhooks that a write concerns are asked at once, and the first refusal decides."""

import asyncio

from apimachinery import errors
from apimachinery.errors import StatusError
from controlplane.apiserver.admission.interface import Attributes
from controlplane.apiserver.admission.matching import is_exempt
from controlplane.apiserver.admission.webhook.calls import Caller, CallFailedError, Versions, closed
from controlplane.apiserver.admission.webhook.hooks import Candidate, Source

NAME = "ValidatingAdmissionWebhook"
_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/round_0_index_"


class ValidatingAdmissionWebhook:
    name = NAME

    def __init__(self, source: Source, caller: Caller) -> None:
        self._source, self._caller = source, caller

    def handles(self, attributes: Attributes) -> bool:
        return self._source.any and not is_exempt(attributes)

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        namespaced = self._caller.namespaced(attributes)
        concerned = [
            (candidate, shown)
            for candidate in self._source.candidates(attributes)
            if (shown := await self._caller.concerned(candidate, attributes, namespaced)) is not None
        ]
        if not concerned:
            return
        refusals: list[StatusError] = []  # in the order in which they came

        async def ask(index: int, candidate: Candidate, shown: Versions) -> None:
            try:
                await self._caller.ask(candidate, attributes, shown)
            except CallFailedError as failure:
                if candidate.hook.fails_open:
                    self._caller.failed_open(candidate.hook, failure, attributes, f"{_FAILED_OPEN}{index}")
                else:
                    refusals.append(closed(failure))
            except StatusError as refusal:
                refusals.append(refusal)
            except Exception as problem:
                refusals.append(errors.internal(f"{NAME}/{candidate.hook.name} has panicked: {problem}"))

        async with asyncio.TaskGroup() as tasks:
            for index, (candidate, shown) in enumerate(concerned):
                tasks.create_task(ask(index, candidate, shown))
        if refusals:
            raise refusals[0]
