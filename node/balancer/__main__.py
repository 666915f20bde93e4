"""``pybernetes balancer``: listen on loopback, spread connections over the API servers that are ready."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import click

from component import logs
from component.daemon import Daemon, run
from component.errors import OperatorError
from component.flags import COMMA_LIST, DURATION, INPUT_FILE, option
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry
from component.serving import listening
from component.tasks import Supervisor
from node.balancer import health
from node.balancer.relay import Relay
from node.balancer.servers import Server, Servers, State, parse_address

_log = logs.get(__name__)

PARAMS: list[click.Parameter] = [
    option("--servers", type=COMMA_LIST, default="", help="HOST:PORT of every API server, the preferred one first."),
    option("--listen", default="127.0.0.1:6443", help="Where clients connect to."),
    option("--certificate-authority", type=INPUT_FILE, help="CA of the API servers' certificates; unchecked when not given."),
    option("--health-interval", type=DURATION, default="1s", help="How often each server is asked whether it is ready."),
    option("--health-timeout", type=DURATION, default="1s", help="A server that takes longer is given up with its connections."),
    option("--healthz-bind-address", default="", help="HOST:PORT for this daemon's own /healthz and /metrics; none when empty."),
]


async def main(options: Mapping[str, Any]) -> None:
    """Relay until cancelled."""
    try:
        servers = Servers([parse_address(text) for text in options["servers"]])
        listen = parse_address(options["listen"])
        own = parse_address(options["healthz_bind_address"]) if options["healthz_bind_address"] else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not servers.all:
        raise click.UsageError("--servers is needed: HOST:PORT of every API server")
    tls = health.context(options["certificate_authority"])
    async with AsyncExitStack() as stack:
        if own is not None:
            checks, metrics = _observed(servers)
            await stack.enter_async_context(listening(health_and_metrics_handler(checks, metrics), *own))
        supervisor = await stack.enter_async_context(Supervisor())
        supervisor.start("health", health.watch(servers, tls, options["health_interval"], options["health_timeout"]))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        relay = Relay(servers, tasks)
        listener = await _listen(relay, *listen)
        _log.info("Balancing", address=f"{listen[0]}:{listen[1]}", servers=[server.name for server in servers.all])
        try:
            await asyncio.Event().wait()
        finally:
            listener.close()
            relay.close()
            supervisor.stop()


async def _listen(relay: Relay, host: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(relay.client, host, port, backlog=1024)
    except OSError as error:
        raise OperatorError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def _observed(servers: Servers) -> tuple[Health, Registry]:
    def some_server_is_ready() -> None:
        if not servers.any_ready:
            raise RuntimeError("no API server is ready")

    checks, metrics = Health(), Registry()
    checks.add("servers", some_server_is_ready, ("readyz",))
    ready = metrics.gauge("balancer_server_ready", "1 while the server gets new connections.", ("server",))
    connections = metrics.gauge("balancer_server_connections", "Connections that go there.", ("server",))
    for server in servers.all:
        ready.labels(server.name).set_function(partial(_ready, server))
        connections.labels(server.name).set_function(partial(_connections, server))
    return checks, metrics


def _ready(server: Server) -> float:
    return float(server.state == State.READY)


def _connections(server: Server) -> float:
    return float(len(server.closers))


DAEMON = Daemon("balancer", "A TCP balancer in front of several API servers.", PARAMS, main)

if __name__ == "__main__":
    run(DAEMON)
