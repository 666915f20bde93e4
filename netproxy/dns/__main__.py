"""``pybernetes dns``: flags and wiring; the only place that names concrete classes."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import click
from aiohttp import web

from apimachinery import times
from apimachinery.resources import CONFIG_MAPS, ENDPOINT_SLICES, NAMESPACES, SERVICES
from client import kubeconfig
from client.informer import Informer, InformerFactory
from client.rest import Client
from component import logs, serving
from component.daemon import Daemon, run
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry
from component.tasks import Supervisor
from netproxy.dns import config, facts, server, stubs
from netproxy.dns.answers import Answers
from netproxy.dns.cache import Cache
from netproxy.dns.config import Config
from netproxy.dns.facts import DNS_SERVICE, FACTS, FELLOWS, TRIGGER
from netproxy.dns.forward import Forwarder
from netproxy.dns.metrics import DNSCollector, DNSMetrics
from netproxy.dns.publish import Publisher
from netproxy.dns.records import Owner, Records
from netproxy.dns.resolvers import LOOK_SECONDS, Resolvers
from netproxy.dns.responder import Responder
from netproxy.dns.upstream import Address

_log = logs.get(__name__)
CONFIGURED_SECONDS = 5.0
"""That the cluster's configuration is waited for before names are answered."""
Object = dict[str, Any]


async def main(options: Mapping[str, Any]) -> None:
    settings = config.read(options)
    try:
        credentials = kubeconfig.load(settings.kubeconfig)
    except kubeconfig.KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from None
    async with Client(credentials, component="dns") as client:
        await DNS(settings, client).run()


class DNS:
    """The parts of one DNS server and their tasks."""

    def __init__(self, settings: Config, client: Client) -> None:
        self._settings, self._client = settings, client
        self._registry = Registry()
        client.count_requests(self._registry)
        metrics = self._metrics = DNSMetrics(self._registry)
        self._started = client.clock.now()
        cache = Cache(
            settings.cache_size, settings.cache_ttl, client.clock, stale=settings.serve_stale, popular=settings.prefetch
        )
        self._registry.collectors.register(DNSCollector(metrics, cache, f"dns://:{settings.port}"))
        self._records = Records()
        answers = Answers(self._records, settings.domain, settings.ttl)
        forwarder = Forwarder(cache, settings.cache_ttl, settings.concurrent, client.clock, metrics)
        self.responder = Responder(self._records, answers, forwarder, metrics, settings.allowed)
        self._informers = InformerFactory(client)
        # apart: a server that may not read its configuration answers all the same
        self._configuration = InformerFactory(client)
        self._own: set[Address] = set()
        self._fellows: dict[str, tuple[str, ...]] = {}  # by slice
        self._resolvers = Resolvers(settings, forwarder, self.responder.probes, lambda: self._own, client.clock)
        self._publisher: Publisher | None = None
        self._watch()

    def _watch(self) -> None:
        """Informers hold what the index was given and nothing else."""
        services = self._informers.informer(SERVICES, transform=facts.trimmed_service)
        _feed(services, self._set_service)
        slices = self._informers.informer(ENDPOINT_SLICES, label_selector=facts.SERVICE_LABEL, transform=facts.trimmed_slice)
        _feed(slices, self._set_slice)
        namespaces = self._informers.informer(NAMESPACES, transform=facts.trimmed_namespace)
        _feed(namespaces, self._set_namespace)
        namespace, name = DNS_SERVICE[0], stubs.NAME
        configured = self._configuration.informer(CONFIG_MAPS, namespace, field_selector=f"metadata.name={name}")
        _feed(configured, lambda _, new: self._resolvers.configure(new))

    def _set_service(self, old: Object | None, new: Object | None) -> None:
        self.responder.changed(self._records.set_service(_owner(new or old), new[FACTS] if new else None))

    def _set_slice(self, old: Object | None, new: Object | None) -> None:
        namespace, name = _owner(new or old)
        owners: list[Owner] = []
        if old and (new is None or new[FACTS].service != old[FACTS].service):
            owners += self._records.set_slice(namespace, name, None, old[FACTS].service)
        if new:
            owners += self._records.set_slice(namespace, name, new[FACTS], new[FACTS].service)
        self.responder.changed(owners)
        if (old or {}).get(FELLOWS) or (new or {}).get(FELLOWS):
            self._fellows[name] = new[FELLOWS] if new else ()
            self.responder.admit(frozenset(each for addresses in self._fellows.values() for each in addresses))
        if new and new[TRIGGER] and (old is None or new[TRIGGER] != old[TRIGGER]):
            self._observe((namespace, new[FACTS].service), new[TRIGGER])
        if self._publisher is not None:
            self._publisher.noticed(namespace, name)

    def _observe(self, service: Owner, trigger: str) -> None:
        """How long after its cause a change of a headless Service is answered; what is older than ourselves says nothing."""
        if not self._records.is_headless(service):
            return
        with contextlib.suppress(ValueError):
            since = times.parse_time(trigger)
            if since >= self._started.replace(microsecond=0):
                seconds = max((self._client.clock.now() - since).total_seconds(), 0)
                self._metrics.programming.labels("headless_with_selector").observe(seconds)

    def _set_namespace(self, old: Object | None, new: Object | None) -> None:
        if old is None and new:
            self._records.add_namespace(new["metadata"]["name"])
        elif new is None and old:
            self._records.remove_namespace(old["metadata"]["name"])
        else:
            return
        self.responder.forget()

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            bound = await stack.enter_async_context(server.listening(self.responder, self._settings.hosts, self._settings.port))
            self._own = {Address(*each) for each in bound}
            _log.info("Answering", addresses=[str(each) for each in self._own], domain=self._settings.domain)
            await self._serve_http(stack)
            supervisor = await stack.enter_async_context(Supervisor(self._client.clock))
            supervisor.start("informers", self._informers.run())
            supervisor.every("resolvers", LOOK_SECONDS, self._resolvers.look)
            supervisor.start("configuration", self._configuration.run())
            await self._informers.wait_synced()
            with contextlib.suppress(TimeoutError):
                await self._configuration.wait_synced(CONFIGURED_SECONDS)
            self.responder.ready = True
            self.responder.forget()
            _log.info("Cluster is known", services=len(self._records))
            if self._settings.advertise:
                self._publisher = Publisher(self._client, self._settings.node_name, self._settings.advertise, bound[0][1])
                supervisor.start("publish", self._publisher.run())

    async def _serve_http(self, stack: AsyncExitStack) -> None:
        if self._settings.metrics is None:
            return
        health = Health()
        health.add("informers-synced", self._check_synced, ["readyz"])
        handler = _with_short_names(health_and_metrics_handler(health, self._registry))
        await stack.enter_async_context(serving.listening(handler, *self._settings.metrics, drain_seconds=1))

    def _check_synced(self) -> None:
        if not self.responder.ready:
            raise RuntimeError("the Services of the cluster are not known yet")


def _feed(informer: Informer, take: Callable[[Object | None, Object | None], None]) -> None:
    informer.add_handler(on_add=lambda new: take(None, new), on_update=take, on_delete=lambda old: take(old, None))


def _owner(obj: Object | None) -> Owner:
    assert obj is not None
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _with_short_names(handler: serving.Handler) -> serving.Handler:
    """``/health`` and ``/ready`` beside ``/healthz`` and ``/readyz``: CoreDNS has those."""
    aliases = {"/health": "/livez", "/ready": "/readyz"}

    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        path = aliases.get(request.path)
        return handler(request.clone(rel_url=path) if path else request)

    return handle


DAEMON = Daemon(
    "dns",
    "Answers the names of Services and endpoints from memory, and asks the node's resolvers for all others.",
    config.params(),
    main,
)

if __name__ == "__main__":
    run(DAEMON)
