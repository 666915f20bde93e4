"""API aggregation, wired: its parts over the server's own stores, and the tasks that keep them up to date.

Made by ``assembly.server``; ``assembly.paths`` asks it for what the paths of discovery and OpenAPI answer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.gvk import GroupVersion
from component.clock import RealClock
from component.metrics import Registry
from component.tasks import Supervisor
from controlplane.apiserver.aggregation.availability import Availability, Cluster
from controlplane.apiserver.aggregation.backends import Backends
from controlplane.apiserver.aggregation.discovery import MergedDiscovery
from controlplane.apiserver.aggregation.documents import Documents
from controlplane.apiserver.aggregation.endpoint_services import SERVICE_NAME, EndpointServices
from controlplane.apiserver.aggregation.openapi_service import MergedOpenAPI
from controlplane.apiserver.aggregation.proxy import Proxy
from controlplane.apiserver.aggregation.registration import Registration, Version
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.assembly.resources import cached_lookup_in, status_writer
from controlplane.apiserver.config import Config
from controlplane.apiserver.discovery import Discovery
from controlplane.apiserver.endpoints.connect import OpenStreams
from controlplane.apiserver.kinds.apiregistration.apiservice import GROUP
from controlplane.apiserver.kinds.apiregistration.priorities import priority_of
from controlplane.apiserver.registry.store import CACHED, Store
from controlplane.apiserver.resource_metrics import objects as metrics_objects
from controlplane.apiserver.service_client import ClusterServices, ServiceResolver
from controlplane.apiserver.storage.interface import ListOptions

Object = dict[str, Any]
_SERVICES, _SLICES = "services", "endpointslices.discovery.k8s.io"
METRICS = GroupVersion(metrics_objects.GROUP, metrics_objects.VERSION)
"""Served in place where that is wanted, as long as no APIService names a metrics server."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    services: APIServices
    backends: Backends
    proxy: Proxy
    availability: Availability
    registration: Registration
    documents: Documents
    openapi: MergedOpenAPI
    resolver: ServiceResolver  # where Services are reached, as --enable-aggregator-routing has it

    def start(self, supervisor: Supervisor) -> None:
        supervisor.keep("apiservices", self.services.follow)
        supervisor.keep("apiservice-availability", self.availability.run)
        supervisor.keep("apiservice-documents", self.documents.run)

    def register(self, supervisor: Supervisor) -> None:
        """From when all that may be wanted is known: APIServices that nobody wants are removed."""
        supervisor.keep("apiservice-registration", self.registration.run)

    def over(self, local: Callable[[], Discovery]) -> MergedDiscovery:
        """Discovery of everything, ``local`` being of this server's own resources."""
        return MergedDiscovery(local, self.services, self.documents)


def made(config: Config, stores: Mapping[str, Store], streams: OpenStreams, metrics: Registry) -> Aggregation:
    """``close`` its backends when the server ends."""
    lookup, slices = cached_lookup_in(stores), _slices_in(stores)
    settings = config.aggregation
    resolver: ServiceResolver = EndpointServices(lookup, slices) if settings.endpoint_routing else ClusterServices(lookup)
    backends = Backends(resolver, settings.certificate, settings.key)
    store, write = stores[f"apiservices.{GROUP}"], status_writer(stores)
    services = APIServices(store)
    with_uid = config.features.enabled("RemoteRequestHeaderUID")
    names = config.identity.front_proxy
    proxy = Proxy(backends, streams, names, with_uid=with_uid, reject_redirects=settings.reject_redirects)
    services.on_change(lambda: proxy.update(services.remote))
    registration = Registration(services, store)
    own = {one.name: one for one in _own(config)}
    registration.add(lambda: own)

    async def write_status(name: str, change: Callable[[Object], Awaitable[Object | None]]) -> None:
        await write(f"apiservices.{GROUP}", "", name, change)

    cluster = Cluster(lookup, slices, stores[_SERVICES], stores[_SLICES])
    documents = Documents(services, backends, RealClock())
    return Aggregation(
        services,
        backends,
        proxy,
        Availability(services, backends, cluster, write_status, metrics, RealClock()),
        registration,
        documents,
        MergedOpenAPI(services, documents),
        resolver,
    )


def _own(config: Config) -> list[Version]:
    return [Version(METRICS, *priority_of(METRICS), yields=True)] if config.resource_metrics else []


def _slices_in(stores: Mapping[str, Store]) -> Callable[[str, str], Awaitable[Sequence[Object]]]:
    """The EndpointSlices of a Service, as the cache holds them."""

    async def slices(namespace: str, name: str) -> list[Object]:
        options = ListOptions(resource_version=CACHED, matches=lambda traits: traits.labels.get(SERVICE_NAME) == name)
        return [entry.decode() for entry in (await stores[_SLICES].list(namespace, options)).entries]

    return slices
