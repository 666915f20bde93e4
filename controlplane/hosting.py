"""What scheduler and controller manager have in common as daemons: a client, a health port, and leading or waiting to.

Each daemon's ``__main__`` gives its flags and one coroutine; :func:`host` surrounds it. Imports nothing of either.
"""

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from aiohttp import web

from apimachinery import errors
from apimachinery.codecs.json import encode
from client import kubeconfig
from client.delegation import ANONYMOUS, CertificateUsers, Delegation, bearer_token
from client.leaderelection import LeaderElector, LeadershipLostError, Timing
from client.rest import Client
from component import features, flags, logs
from component.dynamic_certificates import CaBundle, Files, ServingCertificates, watch
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry
from component.serving import Handler, listening
from component.tasks import Supervisor

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """What the daemon's own work is given."""

    client: Client
    health: Health
    metrics: Registry
    identity: str

    def not_ready_until_synced(self) -> asyncio.Event:
        """``/readyz`` fails from now on until what is returned has been set, which is for when the first lists have been read."""
        synced = asyncio.Event()

        def informers_synced() -> None:
            if not synced.is_set():
                raise RuntimeError("the first lists are still being read")

        self.health.add("informers-synced", informers_synced, ("readyz",))
        return synced


def params(port: int, lease: str) -> list[click.Parameter]:
    """The flags that both have, with upstream's names and defaults."""
    return [
        flags.kubeconfig(),
        flags.option("--bind-address", default="127.0.0.1", help="Address of the health and metrics port."),
        flags.option("--secure-port", type=click.IntRange(0, 65535), default=port, help="The HTTPS port; 0 serves nothing."),
        flags.option("--tls-cert-file", type=flags.INPUT_FILE, help="Certificate of the HTTPS port; self-signed without one."),
        flags.option("--tls-private-key-file", type=flags.INPUT_FILE, help="Key of --tls-cert-file."),
        *flags.tls_profile_flags(),
        flags.option("--client-ca-file", type=flags.INPUT_FILE, help="CA whose client certificates are recognised."),
        flags.option("--authentication-kubeconfig", type=flags.INPUT_FILE, help="Accepted; --kubeconfig's identity asks."),
        flags.option("--authorization-kubeconfig", type=flags.INPUT_FILE, help="Accepted; --kubeconfig's identity asks."),
        flags.option(
            "--authorization-always-allow-paths",
            type=flags.COMMA_LIST,
            default="/healthz,/readyz,/livez",
            help="Paths open to everybody.",
        ),
        flags.accepted("--requestheader-client-ca-file"),
        flags.accepted("--profiling"),
        flags.accepted("--contention-profiling"),
        features.flag(),
        flags.switch("--leader-elect", True, "Wait for a lease before working, so that one of several copies works."),
        flags.option("--leader-elect-lease-duration", type=flags.DURATION, default="15s", help="How long a lease counts."),
        flags.option("--leader-elect-renew-deadline", type=flags.DURATION, default="10s", help="When a leader gives up."),
        flags.option("--leader-elect-retry-period", type=flags.DURATION, default="2s", help="Pause between two tries."),
        flags.option("--leader-elect-resource-name", default=lease, help="Name of the lease."),
        flags.option("--leader-elect-resource-namespace", default="kube-system", help="Namespace of the lease."),
        flags.option("--kube-api-qps", type=float, default=0.0, help="Accepted and ignored: the API server itself asks to wait."),
        flags.option("--kube-api-burst", type=int, default=0, help="Accepted and ignored, as --kube-api-qps."),
    ]


async def host(options: Mapping[str, Any], name: str, lead: Callable[[Host], Awaitable[None]]) -> None:
    """Serve health, wait to lead if asked to, and run ``lead`` until cancelled."""
    config = _client_config(options)
    _check_tls_flags(options)
    metrics = Registry()
    options["feature_gates"].expose(metrics)
    for warning in options["feature_gates"].warnings:
        _log.warning(warning)
    health = Health()
    identity = f"{os.uname().nodename}_{uuid.uuid4()}"
    async with (
        Client(config, component=name) as client,
        Client(config, component=f"{name}-leader-election") as unguarded,
        _served(options, unguarded, health, metrics),
    ):
        client.count_requests(metrics)
        unguarded.count_requests(metrics)
        given = Host(client, health, metrics, identity)
        if options["leader_elect"]:
            await _elected(options, given, unguarded, lead)
        else:
            await lead(given)


def _client_config(options: Mapping[str, Any]) -> kubeconfig.Config:
    path = options.get("kubeconfig")
    if not path:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            return kubeconfig.in_cluster()
        raise click.UsageError("--kubeconfig is needed: it says where the API server is and who this daemon is")
    try:
        return kubeconfig.load(path)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--kubeconfig: {error}") from None


def _check_tls_flags(options: Mapping[str, Any]) -> None:
    if bool(options.get("tls_cert_file")) != bool(options.get("tls_private_key_file")):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together: give both, or neither")


async def _elected(options: Mapping[str, Any], given: Host, unguarded: Client, lead: Callable[[Host], Awaitable[None]]) -> None:
    """``unguarded`` renews the lease; what ``lead`` changes goes through a client that asks for the lease first."""
    try:
        timing = Timing(
            options["leader_elect_lease_duration"],
            options["leader_elect_renew_deadline"],
            options["leader_elect_retry_period"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    elector = LeaderElector(
        unguarded,
        options["leader_elect_resource_name"],
        options["leader_elect_resource_namespace"],
        identity=given.identity,
        timing=timing,
    )

    leading = given.metrics.gauge("leader_election_master_status", "1 while this process leads.", ("name",))
    status = leading.labels(options["leader_elect_resource_name"])
    status.set(0)

    async def work() -> None:
        status.set(1)
        given.client.guard = elector.check
        await lead(given)

    try:
        await elector.run(work)
    except LeadershipLostError as error:
        _log.error("Leadership lost", err=error)
        raise


class Guard:
    """Who may read what on the health port: health is open, the rest is for those whom the API server allows it."""

    def __init__(self, client: Client, options: Mapping[str, Any], client_ca: Callable[[], bytes] | None) -> None:
        self._delegation = Delegation(client, client.clock)
        self._certificates = CertificateUsers(client_ca, client.clock)
        self._open = tuple(options["authorization_always_allow_paths"])

    def before(self, handler: Handler) -> Handler:
        """``handler``, behind the guard."""

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                await self._admit(request)
            except errors.StatusError as refusal:
                body = encode(refusal.status)
                return web.Response(status=refusal.code, body=body, content_type="application/json")
            return await handler(request)

        return handle

    async def _admit(self, request: web.BaseRequest) -> None:
        """Raises StatusError 401, 403, or 500 when the API server cannot be asked."""
        path = request.path
        if any(path == each or (each.endswith("*") and path.startswith(each[:-1])) for each in self._open):
            return
        user = await self._certificates.user(request) or await self._delegation.token_user(request)
        if user is None:
            if bearer_token(request) is not None or self._certificates.presented(request):
                raise errors.unauthorized()
            user = ANONYMOUS
        if "system:masters" in user.groups:
            return
        verb = request.method.lower()
        try:
            if await self._delegation.allowed(user, {"nonResourceAttributes": {"path": path, "verb": verb}}):
                return
        except (ConnectionError, errors.StatusError) as error:
            raise errors.internal("the API server cannot be asked what the caller may do") from error
        raise errors.forbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"')


@asynccontextmanager
async def _served(options: Mapping[str, Any], client: Client, health: Health, metrics: Registry) -> AsyncIterator[None]:
    port = options["secure_port"]
    if port == 0:
        yield
        return
    certificates, watched = await asyncio.to_thread(_certificates, options)
    bundles = [CaBundle(path) for path in filter(None, [options["client_ca_file"]])]
    guard = Guard(client, options, bundles[0].current if bundles else None)
    handler = guard.before(health_and_metrics_handler(health, metrics))
    where = (options["bind_address"], port, certificates.context)
    async with Supervisor(client.clock) as supervisor, listening(handler, *where, drain_seconds=2.0) as address:
        supervisor.start("certificate files", watch(client.clock, *watched, *bundles))
        _log.v(1, "Serving health and metrics", url=address.url)
        try:
            yield
        finally:
            supervisor.stop()


def _certificates(options: Mapping[str, Any]) -> tuple[ServingCertificates, list[ServingCertificates]]:
    """What the port shows, and what of it is to be watched: the given certificate, or one made for this run (ssl reads only
    files, so that one passes through a private folder)."""
    asked_for = tuple(filter(None, [options["client_ca_file"]]))
    profile = flags.tls_profile(options)
    if options.get("tls_cert_file"):
        given = Files(options["tls_cert_file"], options["tls_private_key_file"], asked_for, profile=profile)
        certificates = ServingCertificates(given)
        return certificates, [certificates]
    from component import x509  # imported here: it weighs 11 MB, and `up` always gives a certificate

    address = options["bind_address"]
    request = x509.Request(f"{address}@{uuid.uuid4().hex[:8]}", dns_names=("localhost",), ip_addresses=("127.0.0.1",))
    pair = x509.issue(x509.new_ca(f"{address}-ca"), request)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        pair.save(certificate, key)
        return ServingCertificates(Files(certificate, key, asked_for, profile=profile)), []
