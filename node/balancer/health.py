"""Looks at every API server's ``/readyz`` over a connection that stays open. Started by ``__main__``, reports into ``servers``.

Twice: without its store, which a living server answers at once, and with it. While etcd elects a leader none is ready; that is
no reason to end connections, all of which would come back at the same moment.

No credentials are sent; with a CA the server must also be who it says it is, or a stranger on the address would get clients
(who would refuse it: TLS goes through to them).
"""

import asyncio
import ssl
from pathlib import Path

import aiohttp

from component import logs
from component.errors import OperatorError
from node.balancer.servers import Server, Servers, State

_log = logs.get(__name__)


def context(ca: Path | None) -> ssl.SSLContext:
    """Raises OperatorError for a file without certificates."""
    try:
        made = ssl.create_default_context(cafile=str(ca) if ca is not None else None)
    except (OSError, ssl.SSLError) as error:
        raise OperatorError(f"--certificate-authority {ca}: {error}") from None
    if ca is None:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def watch(servers: Servers, tls: ssl.SSLContext, interval: float, timeout: float) -> None:
    """Until cancelled."""
    limits = aiohttp.ClientTimeout(total=timeout)
    async with aiohttp.ClientSession(timeout=limits) as session, asyncio.TaskGroup() as tasks:
        for server in servers.all:
            tasks.create_task(_watch_one(servers, server, session, tls, interval), name=f"health:{server.name}")


async def _watch_one(
    servers: Servers, server: Server, session: aiohttp.ClientSession, tls: ssl.SSLContext, interval: float
) -> None:
    while True:
        state, why = await look(server, session, tls)
        if servers.report(server, state):
            _log.info("API server is now another", server=server.name, state=state.name.lower(), err=why)
        await asyncio.sleep(interval)


async def look(server: Server, session: aiohttp.ClientSession, tls: ssl.SSLContext) -> tuple[State, str]:
    """Its state, and why it is not better."""
    try:
        if (status := await _ask(server, session, tls, "?exclude=etcd")) != 200:
            return State.DRAINING, f"/readyz says {status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return State.DEAD, str(error) or type(error).__name__
    try:
        status = await _ask(server, session, tls, "")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return State.DRAINING, f"with its store: {str(error) or type(error).__name__}"
    return (State.READY, "") if status == 200 else (State.DRAINING, f"/readyz says {status}")


async def _ask(server: Server, session: aiohttp.ClientSession, tls: ssl.SSLContext, query: str) -> int:
    async with session.get(f"https://{server.name}/readyz{query}", ssl=tls) as answer:
        await answer.read()
        return answer.status
