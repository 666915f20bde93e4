"""Servers that objects of the cluster name: webhooks of admission, webhooks that convert, extension API servers.

A ``WebhookClientConfig`` names a URL or a Service, with the CA to trust. ``HookClients`` posts to it; ``ClusterServices`` says
where a Service is reached. Admission's webhooks and conversion are the callers; aggregation asks the resolver alone.
"""

import asyncio
import base64
import binascii
import posixpath
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, Self
from urllib.parse import quote, unquote, urlencode, urlsplit

import aiohttp
from yarl import URL

from client import kubeconfig
from client.credentials import Credentials
from client.transport import ssl_context
from component.clock import Clock, RealClock
from component.tls import TlsFileError
from controlplane.apiserver import call_answers, call_failures

Object = dict[str, Any]
Lookup = Callable[[str, str, str], Awaitable[Object | None]]

ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer that are read. Upstream reads all; one object with a patch as large as itself stays far below."""
_HTTPS = 443
_CONTEXTS = 200  # upstream keeps as many clients
_IDLE_SECONDS = 90.0
_POOL = 256
_PER_SERVER = 100
_AGENT = "kube-apiserver-admission"
_PATH_SAFE = "/$&+,:;=@~"


class ResolveError(Exception):
    """There is no address to be had for the Service; the text is upstream's."""


class HookError(Exception):
    """No usable answer; the text is what upstream puts after ``failed to call webhook:``. ``code`` is that of the answer."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code


class UnusableConfigError(HookError):
    """The configuration itself cannot be used: nobody was asked."""


class ServiceResolver(Protocol):
    async def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Host (an address, or a name for ExternalName) and port. Raises ResolveError."""
        ...


class ClusterServices:
    """Services by their ClusterIP, as kube-apiserver reaches them unless told to pick endpoints itself."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        service = await self._lookup("services", namespace, name)
        if service is None:
            raise ResolveError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            return str(spec.get("externalName") or ""), port
        if kind not in ("ClusterIP", "NodePort", "LoadBalancer"):
            raise ResolveError(f'unsupported service type "{kind}"')
        if kind == "ClusterIP" and spec.get("clusterIP") == "None":
            raise ResolveError('cannot route to service with ClusterIP "None"')
        if not any(each.get("port") == port for each in spec.get("ports") or ()):
            raise ResolveError(f'no service port {port} found for service "{name}"')
        return str(spec.get("clusterIP") or ""), port


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Where to post. ``service`` is (namespace, name), empty for a URL; ``path`` begins with a slash."""

    scheme: str
    host: str  # as the server is called in its certificate
    port: int
    path: str
    origin: str  # scheme, host and port as upstream shows them
    service: tuple[str, str] | None = None
    ca_bundle: bytes = b""

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> Self:
        """From a ``WebhookClientConfig``. Raises UnusableConfigError."""
        try:
            ca_bundle = base64.b64decode(config.get("caBundle") or "", validate=True)
        except (binascii.Error, ValueError):
            raise UnusableConfigError("unable to load root certificates: caBundle is not base64") from None
        service = config.get("service")
        if service:
            namespace, name = str(service.get("namespace") or ""), str(service.get("name") or "")
            port, host = int(service.get("port") or _HTTPS), f"{name}.{namespace}.svc"
            return cls(
                "https", host, port, _path(service.get("path") or ""), f"https://{host}:{port}", (namespace, name), ca_bundle
            )
        url = config.get("url")
        if not url:
            raise UnusableConfigError("webhook configuration must have either service or URL")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _HTTPS
        except ValueError as problem:
            raise UnusableConfigError(f"Unparsable URL: {problem}") from None
        return cls(parts.scheme, host, port, _path(unquote(parts.path)), f"{parts.scheme}://{parts.netloc}", None, ca_bundle)


def _path(text: str) -> str:
    """Cleaned as Go's ``path.Join`` does, which also takes a slash from the end."""
    return quote("/" + posixpath.normpath("/" + text).lstrip("/"), safe=_PATH_SAFE)


class Users:
    """Who to be towards which server, from the users of a kubeconfig (``kubeConfigFile`` of admission's configuration).

    A user is named after the server: ``HOST:PORT``, ``*.REST-OF-HOST:PORT``, the same without the port where it is 443, or
    ``*``; then whoever the current context is.
    """

    def __init__(self, users: Mapping[str, kubeconfig.Config] | None = None, current: str = "") -> None:
        self._users, self._current = users or {}, current

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises KubeconfigError."""
        return cls(*kubeconfig.load_users(path))

    def named(self, host: str, port: int) -> str:
        """The user's name, or nothing for nobody in particular."""
        if not self._users:
            return ""
        targets = [f"{host}:{port}", host] if port == _HTTPS else [f"{host}:{port}"]
        for target in targets:
            steps = target.split(".")
            for name in (target, *("*." + ".".join(steps[start:]) for start in range(1, len(steps)))):
                if name in self._users:
                    return name
        return next((name for name in ("*", self._current) if name in self._users), "")

    def get(self, name: str) -> kubeconfig.Config:
        return self._users.get(name, kubeconfig.Config(""))


@dataclass(slots=True)
class _Trust:
    """What one CA bundle and one user make: a TLS context and the header that names us."""

    context: ssl.SSLContext
    credentials: Credentials
    impersonate: str | None


@dataclass(frozen=True, slots=True)
class _Request:
    url: str  # where the connection goes
    authority: str  # who is asked for
    server_name: str  # who has to be there, by its certificate
    body: bytes
    trust: _Trust


@dataclass(slots=True)
class HookClients:
    """Connections to webhooks, kept while they are used; TLS contexts, one for each CA bundle and user.

    Redirects are not followed and proxies of the environment not used: what a configuration names is what is called.
    """

    resolver: ServiceResolver
    users: Users = field(default_factory=Users)
    clock: Clock = field(default_factory=RealClock)
    _session: aiohttp.ClientSession | None = None
    _trusts: OrderedDict[tuple[bytes, str], _Trust] = field(default_factory=OrderedDict)

    async def post(
        self, config: ClientConfig, body: bytes, timeout: float, query: Mapping[str, str], limit: int = ANSWER_LIMIT
    ) -> bytes:
        """The body of a successful answer, of at most ``limit`` bytes, within ``timeout`` seconds. Raises HookError."""
        tail = config.path + (f"?{urlencode(query)}" if query else "")
        trust = await self._trust(config)
        host, port = config.host, config.port
        try:
            async with asyncio.timeout(timeout):
                if config.service is not None:
                    host, port = await self.resolver.resolve(*config.service, port)
                shown = f"[{host}]" if ":" in host else host
                url = f"{config.scheme}://{shown}:{port}{tail}"
                authority = config.origin.partition("://")[2]
                return await self._exchange(_Request(url, authority, config.host, body, trust), limit)
        except ResolveError as problem:
            why = str(problem)
        except kubeconfig.KubeconfigError as problem:
            raise UnusableConfigError(str(problem)) from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            why = call_failures.of_exchange(problem, host, port, config.host)
        raise HookError(f'Post "{config.origin}{tail}": {why}')

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, request: "_Request", limit: int) -> bytes:
        """One request; a second one when the server had closed the kept connection that the first was sent on."""
        seen = SimpleNamespace(reused=False)
        try:
            return await self._send(request, limit, seen)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not seen.reused:
                raise
        return await self._send(request, limit, seen)

    async def _send(self, request: "_Request", limit: int, seen: SimpleNamespace) -> bytes:
        trust = request.trust
        headers = {"Host": request.authority, "Content-Type": "application/json", "Accept": "application/json"}
        if authorization := await trust.credentials.header():
            headers["Authorization"] = authorization
        if trust.impersonate:
            headers["Impersonate-User"] = trust.impersonate
        async with self._open().post(
            URL(request.url, encoded=True),
            data=request.body,
            headers=headers,
            ssl=trust.context,
            server_hostname=request.server_name,
            allow_redirects=False,
            trace_request_ctx=seen,
        ) as answer:
            if not 200 <= answer.status <= 206:
                raise HookError(call_failures.of_answer(answer.status), answer.status)
            try:
                return await call_answers.read(answer, limit)
            except call_answers.TooLargeError as problem:
                raise HookError(str(problem)) from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            connector = aiohttp.TCPConnector(
                limit=_POOL, limit_per_host=_PER_SERVER, keepalive_timeout=_IDLE_SECONDS, use_dns_cache=False
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[trace],
            )
        return self._session

    async def _trust(self, config: ClientConfig) -> _Trust:
        name = self.users.named(config.host, config.port)
        key = (config.ca_bundle, name)
        if (known := self._trusts.get(key)) is not None:
            self._trusts.move_to_end(key)
            return known
        user = self.users.get(name)
        credentials = Credentials(user, self.clock)
        try:
            made = _Trust(await _context(config, credentials), credentials, user.impersonate)
        except (TlsFileError, kubeconfig.KubeconfigError, ValueError):
            # a reason of OpenSSL's would say less than upstream's sentence
            raise UnusableConfigError("unable to load root certificates: unable to parse bytes as PEM block") from None
        self._trusts[key] = made
        if len(self._trusts) > _CONTEXTS:
            self._trusts.popitem(last=False)
        return made


async def _context(config: ClientConfig, credentials: Credentials) -> ssl.SSLContext:
    """On a thread: the system's roots are many files."""
    completed = await credentials.completed()
    wanted = replace(completed, ca_data=config.ca_bundle or None)
    context = await asyncio.to_thread(ssl_context, wanted)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: what is in the bundle is trusted, a root or not
    context.hostname_checks_common_name = False
    return context


async def _note_reuse(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.reused = True
