"""The admission chain of a server: the plugins that the flags choose, with what they need."""

import contextlib
from collections.abc import Mapping
from typing import cast

from component.featuregates import Gates
from controlplane.apiserver.admission import catalog, configuration
from controlplane.apiserver.admission.chain import AdmissionChain
from controlplane.apiserver.admission.metrics import AdmissionMetrics
from controlplane.apiserver.admission.policy.source import Held
from controlplane.apiserver.admission.webhook.wiring import Webhooks
from controlplane.apiserver.assembly.resources import cached_listing_in, cached_lookup_in, namespace_maker, status_writer
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.config import Admission
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.service_client import HookClients, ServiceResolver, Users


def chain_for(
    config: Admission,
    features: Gates,
    stores: Mapping[str, Store],
    authorizer: Authorizer,
    dial: catalog.Dial,
    metrics: AdmissionMetrics | None = None,
    policies: catalog.Policies | None = None,
    webhooks: Webhooks | None = None,
) -> AdmissionChain:
    """Raises OperatorError for flags or a file that mean nothing."""
    settings = configuration.load(config.file) if config.file is not None else {}
    metrics = metrics or AdmissionMetrics()
    makes = namespace_maker(stores)
    reads = cached_lookup_in(stores), cached_listing_in(stores)
    tools = catalog.Tools(*reads, authorizer, status_writer(stores), settings, features, dial, makes, metrics, policies, webhooks)
    return AdmissionChain(catalog.plugins(tools, catalog.chosen(config.enabled, config.disabled)), metrics)


def webhooks_in(stores: Mapping[str, Store], resolver: ServiceResolver, stack: contextlib.AsyncExitStack) -> Webhooks:
    """Connections are open as long as ``stack`` is."""

    def open_clients(users: Users) -> HookClients:
        clients = HookClients(resolver, users)
        stack.push_async_callback(clients.close)
        return clients

    return Webhooks(lambda resource: cast("Held", stores[resource].objects), open_clients)
