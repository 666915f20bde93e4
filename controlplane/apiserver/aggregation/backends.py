"""How extension servers are reached: the Service's address, TLS with the authority the APIService names, and our certificate.

Made by ``assembly.aggregation``; ``proxy`` asks it for each request, ``documents`` and ``availability`` for their own.
"""

import asyncio
import os
import ssl
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from yarl import URL

from component import logs, tls
from controlplane.apiserver import call_answers, call_failures
from controlplane.apiserver.aggregation.identity import identity_headers
from controlplane.apiserver.aggregation.registered import Registered, ServiceReference
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.service_client import ServiceResolver

_CONTEXTS = 200  # as many as clients of webhooks are kept
_CONNECT_SECONDS = 30.0  # as upstream's dialer
_IDLE_SECONDS = 90.0
_log = logs.get(__name__)
_Stamp = tuple[tuple[int, int], ...]


class UnreachableError(Exception):
    """There was no whole answer; the text says of whom and why, in Go's words."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One server, for one request. ``server_name`` is who has to be there; ``context`` decides whether that is looked at."""

    host: str
    port: int
    server_name: str
    context: ssl.SSLContext

    @property
    def origin(self) -> str:
        return f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A small answer, read whole."""

    status: int
    etag: str
    body: bytes


class Backends:
    """``certificate`` and ``key`` are what we show, where there is one; they are read again when they change."""

    def __init__(self, resolver: ServiceResolver, certificate: Path | None, key: Path | None) -> None:
        self._resolver = resolver
        self._certificate, self._key = certificate, key
        self._contexts: OrderedDict[tuple[bytes, bool], tuple[_Stamp, ssl.SSLContext]] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    async def of(self, one: Registered) -> Backend:
        """Raises ResolveError, or ValueError when TLS cannot be had from what the APIService says."""
        assert one.service is not None
        context = await self._context(one.ca_bundle, insecure=one.insecure)
        return await self._resolved(one.service, context)

    async def unverified(self, service: ServiceReference) -> Backend:
        """For the question whether it answers at all. Raises ResolveError, ValueError."""
        return await self._resolved(service, await self._context(b"", insecure=True))

    async def get(self, backend: Backend, path: str, user: UserInfo, headers: Sequence[tuple[str, str]], limit: int) -> Fetched:
        """Ask for a document. Raises UnreachableError, also for one of more than ``limit`` bytes; with 0 no body is read.

        Set a time limit around it.
        """
        url = backend.origin + path
        try:
            async with self.session.get(
                URL(url, encoded=True),
                headers=[*headers, *identity_headers(user)],
                ssl=backend.context,
                server_hostname=backend.server_name,
                allow_redirects=False,
            ) as answer:
                body = await call_answers.read(answer, limit) if limit else b""
                return Fetched(answer.status, answer.headers.get("ETag", ""), body)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            why = call_failures.of_exchange(problem, backend.host, backend.port, backend.server_name)
            raise UnreachableError(f'Get "{url}": {why}') from problem

    @property
    def session(self) -> aiohttp.ClientSession:
        """For requests that are passed on: no cookies, no redirects of its own, bodies untouched, connections as needed."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS, use_dns_cache=False),
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _resolved(self, service: ServiceReference, context: ssl.SSLContext) -> Backend:
        host, port = await self._resolver.resolve(service.namespace, service.name, service.port)
        return Backend(host, port, service.server_name, context)

    async def _context(self, bundle: bytes, *, insecure: bool) -> ssl.SSLContext:
        held = self._contexts.get((bundle, insecure))
        try:
            stamp = self._stamp()
            if held is not None and held[0] == stamp:
                self._contexts.move_to_end((bundle, insecure))
                return held[1]
            made = await asyncio.to_thread(self._make, bundle, insecure=insecure)  # the system's roots are many files
        except (OSError, ValueError) as error:
            if held is None:
                raise ValueError(str(error)) from error
            _log.error("Cannot read the renewed certificate of the front proxy, keeping the old one", err=error)
            return held[1]
        self._contexts[bundle, insecure] = stamp, made
        if len(self._contexts) > _CONTEXTS:
            self._contexts.popitem(last=False)
        return made

    def _make(self, bundle: bytes, *, insecure: bool) -> ssl.SSLContext:
        try:
            text = bundle.decode("ascii") or None
        except UnicodeDecodeError:
            text = "no PEM"
        context = tls.client_context(ca_data=text, certificate=self._certificate, key=self._key, insecure=insecure)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: what is in the bundle is trusted, a root or not
        context.hostname_checks_common_name = False
        return context

    def _stamp(self) -> _Stamp:
        files = (self._certificate, self._key)
        return tuple((found.st_mtime_ns, found.st_ino) for found in (os.stat(file) for file in files if file is not None))
