"""THE ordered list of admission plugins (upstream's order), and the chain that runs them."""

from collections.abc import Sequence

from controlplane.apiserver.admission.interface import Attributes, Listing, Lookup, Plugin, StatusWrite
from controlplane.apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from controlplane.apiserver.admission.plugins.limit_ranger import LimitRanger
from controlplane.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from controlplane.apiserver.admission.plugins.node_restriction import NodeRestriction
from controlplane.apiserver.admission.plugins.priority import Priority
from controlplane.apiserver.admission.plugins.resource_quota import ResourceQuota
from controlplane.apiserver.admission.plugins.role_escalation import RoleEscalation
from controlplane.apiserver.admission.plugins.runtime_class import RuntimeClass
from controlplane.apiserver.admission.plugins.service_account import ServiceAccount
from controlplane.apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from controlplane.apiserver.authorization.interface import Authorizer


def plugins(lookup: Lookup, listing: Listing, authorizer: Authorizer, write_status: StatusWrite) -> list[Plugin]:
    """Built-in plugins, in the order in which they see a write."""
    return [
        NamespaceLifecycle(lookup),
        LimitRanger(listing),
        ServiceAccount(lookup),
        NodeRestriction(lookup),
        TaintNodesByCondition(),
        Priority(lookup),
        DefaultTolerationSeconds(),
        RuntimeClass(lookup),
        RoleEscalation(lookup, authorizer),
        ResourceQuota(listing, write_status),  # last: what it claims must not be refused by another
    ]


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
