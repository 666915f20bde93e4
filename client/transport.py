"""One method, request in, response out: the socket side of the client, so that a test can replace it (``client.fake``).

``client.rest`` is the only caller. AioTransport keeps a pool of connections, presents the client certificate or adds
the bearer token, and knows nothing of Kubernetes' objects.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from weakref import WeakSet

import aiohttp
from yarl import URL

from client import kubeconfig
from client.credentials import Credentials
from client.kubeconfig import Config, KubeconfigError
from component import tls
from component.clock import Clock, RealClock
from component.tls import TlsFileError

_POOL = 256
_LOOK_PERIOD = 10.0
_BUFFER = 1 << 18


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. ``path`` carries its encoded query. ``timeout`` bounds the whole exchange, or for a ``stream``
    each silence."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 60.0
    stream: bool = False


class TransportError(ConnectionError):
    """No answer came. ``sent`` is False when the server certainly never saw the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Response(Protocol):
    """An answer whose body is read once: as a whole or in chunks."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes:
        """The whole body. Raises TransportError when it breaks off."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Ends with the stream; raises TransportError when it breaks off."""
        ...

    def close(self) -> None:
        """Give up the rest of the body and its connection."""
        ...


class Transport(Protocol):
    """Sends requests to one API server."""

    async def send(self, request: Request) -> Response:
        """Returns once the head of the answer is here, whatever its status. Raises TransportError."""
        ...

    async def close(self) -> None: ...


class _AioResponse:
    __slots__ = ("__weakref__", "_inner")

    def __init__(self, inner: aiohttp.ClientResponse) -> None:
        self._inner = inner

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def read(self) -> bytes:
        try:
            return await self._inner.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"answer broke off: {_text(error)}", sent=True) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"stream broke off: {_text(error)}", sent=True) from error
        finally:
            # after the end this does nothing: the connection is back in the pool
            self._inner.close()

    def close(self) -> None:
        self._inner.close()


class AioTransport:
    """A Transport over aiohttp. The pool is made with the first request, inside the running loop.

    Files of certificates, and the kubeconfig, count within ten seconds of a change: the pool is replaced, and streams on the
    old one break off, which their readers survive.
    """

    def __init__(
        self, config: Config, user_agent: str, clock: Clock | None = None, credentials: Credentials | None = None
    ) -> None:
        self._config = config
        self._base = config.server
        self._clock = clock or RealClock()
        self._credentials = credentials or Credentials(config, self._clock)
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        if config.impersonate:
            self._headers["Impersonate-User"] = config.impersonate
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None
        self._streams: WeakSet[_AioResponse] = WeakSet()
        self._opening = asyncio.Lock()
        self._files = _files(config)
        self._stamp: object = None
        self._look_again = 0.0
        self._closed = False

    async def send(self, request: Request) -> Response:
        session = self._session
        if session is None or (self._files and self._clock.monotonic() >= self._look_again):
            session = await self._open()
        headers = dict(request.headers)
        if authorization := await self._credentials.header():
            headers.setdefault("Authorization", authorization)
        try:
            inner = await session.request(
                request.method,
                URL(self._base + request.path, encoded=True),
                headers=headers,
                data=request.body,
                timeout=_timeout(request),
                allow_redirects=False,
                read_bufsize=_BUFFER,
                server_hostname=self._config.tls_server_name,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ClientConnectorCertificateError) as error:
            raise TransportError(f"cannot reach {self._base}: {_text(error)}", sent=False) from error
        except TimeoutError as error:
            raise TransportError(f"{request.method} {self._base}{request.path}: no answer in time", sent=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{request.method} {self._base}{request.path}: {_text(error)}", sent=True) from error
        if inner.status == 401:
            self._credentials.refused()
        response = _AioResponse(inner)
        if request.stream:
            self._streams.add(response)
        return response

    async def close(self) -> None:
        self._closed = True
        for session in filter(None, (self._session, self._retired)):
            await session.close()
        self._session = self._retired = None

    async def _open(self) -> aiohttp.ClientSession:
        """The pool, made anew when the files it was made of have changed."""
        async with self._opening:
            if self._closed:
                raise TransportError("the client is closed", sent=False)
            self._look_again = self._clock.monotonic() + _LOOK_PERIOD
            stamp = await asyncio.to_thread(_stamps, self._files)
            if self._session is not None and stamp == self._stamp:
                return self._session
            old = self._session
            try:
                if old is not None:
                    await asyncio.to_thread(self._reread)
                self._session = await self._new_session()
            except (TlsFileError, KubeconfigError):
                # half-replaced files are complete at the next look
                if old is None:
                    raise
                return old
            self._stamp = stamp
            if old is not None:
                await self._retire(old)
            return self._session

    async def _retire(self, old: aiohttp.ClientSession) -> None:
        """Requests under way end on the old pool, which goes with the next exchange; streams would stay on it for ever."""
        retired, self._retired = self._retired, old
        for stream in list(self._streams):
            stream.close()  # closing the pool alone would leave their readers waiting
        if retired is not None:
            await retired.close()

    def _reread(self) -> None:
        """Who we are and whom we trust may have changed in the kubeconfig itself; the server's address counts as it was."""
        if self._config.source is None:
            return
        read = kubeconfig.load(self._config.source, self._config.source_context)
        self._config = replace(read, server=self._config.server)
        self._credentials.use(self._config)
        self._files = _files(self._config)

    async def _new_session(self) -> aiohttp.ClientSession:
        config = await self._credentials.completed()
        context: Any = ssl_context(config) if self._base.startswith("https") else False
        connector = aiohttp.TCPConnector(limit=_POOL, ssl=context, ttl_dns_cache=60, socket_factory=_socket)
        return aiohttp.ClientSession(
            connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )


def _files(config: Config) -> tuple[str, ...]:
    """What our certificate, our trust and our token are read from."""
    return tuple(filter(None, (config.source, config.certificate_file, config.key_file, config.ca_file)))


def _timeout(request: Request) -> aiohttp.ClientTimeout:
    if request.stream:
        return aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=request.timeout)
    return aiohttp.ClientTimeout(total=request.timeout, sock_connect=30)


def _stamps(files: Sequence[str]) -> tuple[object, ...]:
    def stamp(path: str) -> object:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    return tuple(stamp(path) for path in files)


def ssl_context(config: Config) -> ssl.SSLContext:
    """The TLS side of a Config. Inline PEM passes through anonymous memory, never through a file on disk."""
    with ExitStack() as stack:

        def as_file(data: bytes | None, path: str | None) -> str | None:
            if data is None:
                return path
            descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
            os.write(descriptor, data)
            return f"/proc/self/fd/{descriptor}"

        return tls.client_context(
            ca_file=config.ca_file if config.ca_data is None else None,
            ca_data=config.ca_data.decode() if config.ca_data is not None else None,
            certificate=as_file(config.certificate_data, config.certificate_file),
            key=as_file(config.key_data, config.key_file),
            insecure=config.insecure,
        )


def _socket(address: Any) -> socket.socket:
    """A socket that notices a dead peer within about a minute, which matters to watches that wait in silence."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
