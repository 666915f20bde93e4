"""Several authorizers asked in order; the first opinion counts. A union is an authorizer itself."""

from collections.abc import Callable, Sequence

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision
from controlplane.apiserver.authorization.rules import Rule

Count = Callable[[int, Decision], None]
"""Told which member decided, by its position, and what."""


class UnionAuthorizer:
    def __init__(self, members: Sequence[Authorizer], count: Count | None = None) -> None:
        self._members = tuple(members)
        self._count = count

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        reasons: list[str] = []
        for position, member in enumerate(self._members):
            decision, reason = await member.authorize(attributes)
            if decision is not Decision.NO_OPINION:
                if self._count is not None:
                    self._count(position, decision)
                return decision, reason
            if reason:
                reasons.append(reason)
        return Decision.NO_OPINION, "\n".join(reasons)

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[str]]:
        """What the members that can list their rules allow, and why others cannot: the list is incomplete then."""
        rules: list[Rule] = []
        problems: list[str] = []
        for member in self._members:
            listing, unlisted = getattr(member, "rules_for", None), getattr(member, "unlisted", None)
            if listing is not None:
                rules += listing(user, namespace)
            if unlisted is not None and (problem := unlisted(user)):
                problems.append(problem)
        return list(dict.fromkeys(rules)), problems


class Replaceable:
    """An authorizer whose union can be exchanged while the server runs: see ``assembly.authorizers``."""

    def __init__(self, union: UnionAuthorizer) -> None:
        self.union = union

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        return await self.union.authorize(attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[str]]:
        return self.union.rules_for(user, namespace)
