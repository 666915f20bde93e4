"""Authorizers that need no rules: everything for a privileged group, and everything for everybody (``AlwaysAllow``)."""

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import ALL, Rule

SUPERUSERS = "system:masters"


class PrivilegedGroups:
    """Allows whatever a member of one of ``groups`` asks."""

    def __init__(self, *groups: str) -> None:
        self._groups = frozenset(groups)

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        if self._groups.isdisjoint(user.groups):
            return []
        return [Rule(ALL, ALL, ALL), Rule(ALL, paths=ALL)]

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        if self._groups.isdisjoint(attributes.user.groups):
            return Decision.NO_OPINION, ""
        return Decision.ALLOW, ""


class AlwaysAllow:
    """``--authorization-mode=AlwaysAllow``, for laboratories."""

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        return [Rule(ALL, ALL, ALL), Rule(ALL, paths=ALL)]

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        return Decision.ALLOW, ""


class AlwaysDeny:
    """``--authorization-mode=AlwaysDeny``, for tests."""

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        return Decision.NO_OPINION, "Everything is forbidden."
