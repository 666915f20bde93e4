"""The two network handlers that probes and lifecycle hooks share: an HTTP GET and a TCP connection, from the node to a pod.

Neither follows the pod anywhere else: redirects to other hosts are not followed, certificates are not verified (upstream's
documented behaviour), answers are read only up to a bound.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from apimachinery.objects import pods

USER_AGENT = "kube-probe/1.36"
_MAX_BODY = 10 * 1024
_MAX_REDIRECTS = 10


class HandlerError(Exception):
    """The handler could not be carried out. ``refused``: nothing listened, so the container saw nothing of it."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where an ``httpGet`` goes."""

    url: str
    headers: Mapping[str, str]


def port_of(container: Mapping[str, Any], port: int | str) -> int:
    """A port by number or by the name of one of the container's ports. Raises HandlerError."""
    if isinstance(port, str) and not port.isdigit():
        for each in container.get("ports") or ():
            if each.get("name") == port:
                return int(each["containerPort"])
        raise HandlerError(f"port {port} not found")
    number = int(port)
    if not 0 < number < 65536:
        raise HandlerError(f"invalid port number: {number}")
    return number


def http_target(action: Mapping[str, Any], container: Mapping[str, Any], ip: str) -> HttpTarget:
    """The URL and headers of an ``httpGet`` action against a pod at ``ip``."""
    host = str(action.get("host") or ip)
    shown = f"[{host}]" if ":" in host else host
    scheme = str(action.get("scheme") or "HTTP").lower()
    path = str(action.get("path") or "/")
    path = path if path.startswith("/") else f"/{path}"
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*"}
    for header in action.get("httpHeaders") or ():
        if header["name"].lower() == "accept" and not header.get("value"):
            headers.pop("Accept", None)
            continue
        for known in [known for known in headers if known.lower() == header["name"].lower()]:
            del headers[known]
        headers[header["name"]] = str(header.get("value") or "")
    return HttpTarget(f"{scheme}://{shown}:{port_of(container, action['port'])}{path}", headers)


def address(pod: Mapping[str, Any], ip: str, node_ip: str) -> str:
    """Where probes reach the pod."""
    return node_ip if pods.is_host_network(pod) else ip


async def http_get(target: HttpTarget, timeout: float) -> tuple[int, str]:
    """Status code and the beginning of the body. Raises HandlerError."""
    connector = aiohttp.TCPConnector(ssl=_unverified() if target.url.startswith("https:") else False, force_close=True)
    limit = aiohttp.ClientTimeout(total=timeout)
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=limit, skip_auto_headers=("User-Agent",)) as session:
            return await _follow(session, target)
    except aiohttp.ClientConnectorError as error:
        refused = isinstance(error.os_error, ConnectionRefusedError)
        shown = f"[{error.host}]" if ":" in error.host else error.host
        why = f"dial tcp {shown}:{error.port}: connect: {_connect_failure(error.os_error)}"
        raise HandlerError(f'Get "{target.url}": {why}', refused=refused) from None
    except TimeoutError:
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        raise HandlerError(f'Get "{target.url}": {why}') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise HandlerError(f'Get "{target.url}": {error or type(error).__name__}') from None


async def _follow(session: aiohttp.ClientSession, target: HttpTarget) -> tuple[int, str]:
    from yarl import URL

    url = URL(target.url, encoded=True)
    home = url.host
    for _ in range(_MAX_REDIRECTS):
        async with session.get(url, headers=target.headers, allow_redirects=False) as response:
            location = response.headers.get("Location", "")
            body = (await response.content.read(_MAX_BODY)).decode(errors="replace")
            if response.status not in (301, 302, 303, 307, 308) or not location:
                return response.status, body
            following = url.join(URL(location))
            if following.host != home:
                return response.status, body  # a redirect to elsewhere counts as success and is not followed
            url = following
    raise HandlerError(f'Get "{target.url}": stopped after {_MAX_REDIRECTS} redirects')


async def tcp_connect(host: str, port: int, timeout: float) -> None:
    """Open a connection and close it. Raises HandlerError."""
    shown = f"[{host}]" if ":" in host else host
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        async with asyncio.timeout(timeout):
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                await loop.sock_connect(connection, (host, port))
    except TimeoutError:
        raise HandlerError(f"dial tcp {shown}:{port}: i/o timeout") from None
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        raise HandlerError(f"dial tcp {shown}:{port}: connect: {_connect_failure(error)}", refused=refused) from None


def _connect_failure(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
