"""The authorizers in their order: by modes (flags), or by an AuthorizationConfiguration, which may change while the server runs.

``assembly.server`` makes one :class:`Authorizers` and gives its ``authorizer`` to the chain. A replaced generation of webhooks
stays open for a while: requests under way may still be asking it.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from component.errors import OperatorError
from component.metrics import Registry
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.assembly.identity import reading
from controlplane.apiserver.assembly.remote import webhook_authorizer
from controlplane.apiserver.authorization import configuration
from controlplane.apiserver.authorization.abac import ABACAuthorizer
from controlplane.apiserver.authorization.abac import read as read_policies
from controlplane.apiserver.authorization.always import SUPERUSERS, AlwaysAllow, AlwaysDeny, PrivilegedGroups
from controlplane.apiserver.authorization.bootstrap_policy import NODE
from controlplane.apiserver.authorization.entries import AuthorizerEntry
from controlplane.apiserver.authorization.interface import Authorizer, Decision
from controlplane.apiserver.authorization.node import NodeAuthorizer, PodsOn
from controlplane.apiserver.authorization.rbac import RBACAuthorizer, RoleSource
from controlplane.apiserver.authorization.union import Replaceable, UnionAuthorizer
from controlplane.apiserver.config import Identity

_LINGER_SECONDS = 35.0  # no question to a webhook takes longer


@dataclass(frozen=True, slots=True)
class Sources:
    """What authorizers look things up in."""

    roles: RoleSource
    pods_on: PodsOn
    lookup: Lookup


class Authorizers:
    def __init__(self, config: Identity, sources: Sources, webhook: Authorizer | None, metrics: Registry) -> None:
        """``webhook`` is that of the flags."""
        self._config, self._sources, self._webhook, self._metrics = config, sources, webhook, metrics
        self._abac: ABACAuthorizer | None = None
        self._open: contextlib.AsyncExitStack | None = None
        self._old: list[tuple[float, contextlib.AsyncExitStack]] = []
        self.authorizer = Replaceable(UnionAuthorizer([PrivilegedGroups(SUPERUSERS)]))

    async def start(self) -> None:
        """Raises OperatorError, and what a kubeconfig that cannot be used raises."""
        config = self._config
        await self._take(config.authorizers or [AuthorizerEntry(mode, mode.lower()) for mode in config.authorization_modes])

    async def reload(self, data: bytes) -> None:
        """Take up a changed AuthorizationConfiguration; raises OperatorError and changes nothing when it cannot be used."""
        await self._take(configuration.read(data))

    async def reload_policies(self, data: bytes) -> None:
        """Take up changed ABAC policies. Raises ValueError."""
        policies = read_policies(data)
        if self._abac is not None:
            self._abac.replace(policies)

    async def tidy(self) -> None:
        """Close what was replaced long enough ago."""
        due = [stack for until, stack in self._old if until < time.monotonic()]
        self._old = [(until, stack) for until, stack in self._old if until >= time.monotonic()]
        for stack in due:
            await stack.aclose()

    async def close(self) -> None:
        for stack in (*(each for _, each in self._old), *([self._open] if self._open is not None else [])):
            await stack.aclose()

    async def _take(self, entries: Sequence[AuthorizerEntry]) -> None:
        stack = contextlib.AsyncExitStack()
        try:
            members = [await self._member(entry, stack) for entry in entries]
        except BaseException:
            await stack.aclose()
            raise
        if self._open is not None:
            self._old.append((time.monotonic() + _LINGER_SECONDS, self._open))
        self._open = stack
        union = UnionAuthorizer([PrivilegedGroups(SUPERUSERS), *members], self._counter(entries))
        self.authorizer.union = union

    async def _member(self, entry: AuthorizerEntry, stack: contextlib.AsyncExitStack) -> Authorizer:
        config, sources = self._config, self._sources
        match entry.type:
            case "RBAC":
                return RBACAuthorizer(sources.roles)
            case "Node":
                return NodeAuthorizer(sources.pods_on, sources.lookup, NODE)
            case "ABAC" if config.abac_policy is not None:
                with reading("--authorization-policy-file", config.abac_policy):
                    self._abac = ABACAuthorizer.load(config.abac_policy)
                return self._abac
            case "Webhook" if entry.webhook is not None:
                return await webhook_authorizer(entry.name, entry.webhook, self._metrics, stack)
            case "Webhook" if self._webhook is not None:
                return self._webhook
            case "AlwaysAllow":
                return AlwaysAllow()
            case "AlwaysDeny":
                return AlwaysDeny()
        raise OperatorError(f"authorizer {entry.name}: {entry.type} needs a file that was not given, or is unknown")

    def _counter(self, entries: Sequence[AuthorizerEntry]) -> Callable[[int, Decision], None]:
        """Counts by upstream's name; administrators are decided about before any of the entries, and not counted."""
        decided = self._metrics.counter(
            "apiserver_authorization_decisions", "Decisions by authorizer.", ("type", "name", "decision")
        )
        words = {Decision.ALLOW: "allowed", Decision.DENY: "denied"}
        labelled = {
            (position, decision): decided.labels(entry.type, entry.name, word)
            for position, entry in enumerate(entries, start=1)
            for decision, word in words.items()
        }

        def count(position: int, decision: Decision) -> None:
            if position:
                labelled[position, decision].inc()

        return count
