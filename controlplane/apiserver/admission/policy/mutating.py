"""MutatingAdmissionPolicy: writes are changed by expressions that are objects of the cluster."""

from functools import partial
from typing import TYPE_CHECKING

from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.interface import CONNECT, CREATE, UPDATE, Attributes, Lookup, Object
from controlplane.apiserver.admission.matching import beyond_policies
from controlplane.apiserver.admission.policy.mutation_metrics import MutationMetrics
from controlplane.apiserver.admission.policy.params import ParamKinds
from controlplane.apiserver.admission.policy.source import Held, Source
from controlplane.apiserver.authorization.interface import Authorizer

if TYPE_CHECKING:
    from controlplane.apiserver.admission.policy.mutator import Mutator

_HANDLED = (CREATE, UPDATE, CONNECT)  # a deletion has nothing that could be changed


class MutatingAdmissionPolicy:
    """``revision`` does the work; a server without a bound policy has not even read it."""

    name = "MutatingAdmissionPolicy"

    def __init__(
        self,
        policies: Held,
        bindings: Held,
        lookup: Lookup,
        authorizer: Authorizer,
        kinds: ParamKinds,
        metrics: MutationMetrics,
        conditions: ConditionMetrics,
    ) -> None:
        self._source = Source(policies, bindings, partial(_compiled, conditions))
        self._lookup, self._authorizer, self._kinds, self._metrics = lookup, authorizer, kinds, metrics

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation in _HANDLED and bool(self._source.candidates(attributes)) and not beyond_policies(attributes)

    async def mutate(self, attributes: Attributes) -> None:
        from controlplane.apiserver.admission.policy.revision import revise
        from controlplane.apiserver.admission.policy.selection import Review

        review = Review(attributes, self._lookup, self._authorizer, self._kinds)
        await revise(review, self._source.candidates(attributes), self._metrics)

    async def validate(self, attributes: Attributes) -> None:
        """Everything is decided while mutating."""


def _compiled(metrics: ConditionMetrics, policy: Object) -> "Mutator":
    from controlplane.apiserver.admission.policy.mutator import Mutator

    return Mutator(policy, metrics)
