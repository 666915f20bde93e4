"""ValidatingAdmissionPolicy: writes are judged by expressions that are objects of the cluster."""

from functools import partial
from typing import TYPE_CHECKING

from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.interface import Attributes, Lookup, Object
from controlplane.apiserver.admission.matching import beyond_policies
from controlplane.apiserver.admission.plugins.base import Validating
from controlplane.apiserver.admission.policy.metrics import PolicyMetrics
from controlplane.apiserver.admission.policy.params import ParamKinds
from controlplane.apiserver.admission.policy.source import Held, Source
from controlplane.apiserver.authorization.interface import Authorizer

if TYPE_CHECKING:
    from controlplane.apiserver.admission.policy.validator import Validator


class ValidatingAdmissionPolicy(Validating):
    """``verdict`` judges; a server without a bound policy has not even read it."""

    name = "ValidatingAdmissionPolicy"

    def __init__(
        self,
        policies: Held,
        bindings: Held,
        lookup: Lookup,
        authorizer: Authorizer,
        kinds: ParamKinds,
        metrics: PolicyMetrics,
        conditions: ConditionMetrics,
    ) -> None:
        self._source = Source(policies, bindings, partial(_compiled, conditions))
        self._lookup, self._authorizer, self._kinds, self._metrics = lookup, authorizer, kinds, metrics

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._source.candidates(attributes)) and not beyond_policies(attributes)

    async def validate(self, attributes: Attributes) -> None:
        from controlplane.apiserver.admission.policy.selection import Review
        from controlplane.apiserver.admission.policy.verdict import judge

        review = Review(attributes, self._lookup, self._authorizer, self._kinds)
        await judge(review, self._source.candidates(attributes), self._metrics)


def _compiled(metrics: ConditionMetrics, policy: Object) -> "Validator":
    from controlplane.apiserver.admission.policy.validator import Validator

    return Validator(policy, metrics)
