"""Several authorizers asked in order; the first opinion counts. A union is an authorizer itself."""

from collections.abc import Sequence

from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision


class UnionAuthorizer:
    def __init__(self, members: Sequence[Authorizer]) -> None:
        self._members = tuple(members)

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        reasons: list[str] = []
        for member in self._members:
            decision, reason = await member.authorize(attributes)
            if decision is not Decision.NO_OPINION:
                return decision, reason
            if reason:
                reasons.append(reason)
        return Decision.NO_OPINION, "\n".join(reasons)
