"""How kubelets are reached: the address a node has registered, the port, and our client certificate."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from apimachinery import errors
from component import logs, tls
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.config import Kubelet

Object = Mapping[str, Any]
DEFAULT_PORT = 10250
_Stamp = tuple[tuple[int, int], ...]
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """One kubelet."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, *segments: str, query: list[tuple[str, str]] | None = None) -> str:
        """``segments`` are decoded; each becomes one part of the path."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        return f"https://{self.authority}/{path}" + (f"?{urlencode(query)}" if query else "")


@dataclass(slots=True)
class Kubelets:
    """Finds kubelets and holds what is needed to talk to them. :meth:`close` when the server ends.

    Without ``--kubelet-certificate-authority`` their serving certificates are not verified, as upstream does it.
    """

    lookup: Lookup
    config: Kubelet
    _contexts: dict[bool, tuple[_Stamp, ssl.SSLContext]] = field(default_factory=dict)
    _session: aiohttp.ClientSession | None = None

    async def of_node(self, name: str) -> Target:
        """Raises StatusError 404 for a node that is not there, 500 for one without an address."""
        node = await self.lookup("nodes", "", name)
        if node is None:
            raise errors.not_found("nodes", name)
        return target(node, self.config.address_types)

    def context(self, *, insecure: bool = False) -> ssl.SSLContext:
        """TLS towards kubelets, with the certificate files as they are now. Raises ValueError naming one that cannot be used;
        when a renewal is broken, what was read before stays in use."""
        insecure = insecure or self.config.authority is None
        held = self._contexts.get(insecure)
        try:
            stamp = self._stamp()
            if held is not None and held[0] == stamp:
                return held[1]
            made = self._make(insecure=insecure)
        except (OSError, ValueError) as error:
            if held is None:
                raise
            _log.error("Cannot read the renewed certificates for kubelets, keeping the old ones", err=error)
            return held[1]
        self._contexts[insecure] = stamp, made
        return made

    def _make(self, *, insecure: bool) -> ssl.SSLContext:
        return tls.client_context(
            ca_file=None if insecure else self.config.authority,
            certificate=self.config.certificate,
            key=self.config.key,
            insecure=insecure,
        )

    def _stamp(self) -> _Stamp:
        files = (self.config.authority, self.config.certificate, self.config.key)
        return tuple((found.st_mtime_ns, found.st_ino) for found in (os.stat(file) for file in files if file is not None))

    @property
    def session(self) -> aiohttp.ClientSession:
        """For plain requests to kubelets, pods and services: no cookies, no redirects of its own, bodies untouched."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=10),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def target(node: Object, address_types: tuple[str, ...]) -> Target:
    """The best address of a node, by the order of types that the operator prefers. Raises StatusError 500."""
    status = node.get("status") or {}
    addresses = status.get("addresses") or ()
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or DEFAULT_PORT
    for kind in address_types:
        for address in addresses:
            if address.get("type") == kind and address.get("address"):
                return Target(address["address"], int(port))
    known = [address.get("type") for address in addresses]
    raise backend_error(f"no preferred addresses found; known addresses: {known}")


def backend_error(message: str, code: int = 500) -> errors.StatusError:
    """A failure behind us in upstream's form for errors that have no reason of their own."""
    return errors.StatusError(errors.make_status(code, "", message))
