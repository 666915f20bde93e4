"""TLS contexts from certificate files, for servers and clients, and renewal of a running server's files.

Only the standard library's ``ssl``: connections never pay for ``cryptography``.
"""

import contextlib
import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from component import logs
from component.clock import Clock
from component.errors import OperatorError

_log = logs.get(__name__)


class TlsFileError(OperatorError, ValueError):
    """A certificate, key or CA cannot be used; the text names the file."""


# the suites upstream offers by default, forward secret and authenticated
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def server_context(
    certificate: str | Path, key: str | Path, client_ca: str | Path | None = None, *, alpn: Sequence[str] = ("http/1.1",)
) -> ssl.SSLContext:
    """TLS 1.2+ for a server. With ``client_ca`` clients are asked for a certificate but may come without one.

    :raises TlsFileError: naming the file that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(list(alpn))
    load_pair(context, certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        # a bundle may hold an intermediate CA without its root
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_ca(context, cafile=str(client_ca))
    return context


def client_context(
    *,
    ca_file: str | Path | None = None,
    ca_data: str | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    insecure: bool = False,
) -> ssl.SSLContext:
    """TLS for a client that trusts the given CA (the system's without one) and may present a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_file is not None or ca_data is not None:
        _load_ca(context, cafile=str(ca_file) if ca_file is not None else None, cadata=ca_data)
    else:
        context.load_default_certs()
    if certificate is not None and key is not None:
        load_pair(context, certificate, key)
    return context


def load_pair(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    """Give a context its own certificate. Raises TlsFileError naming the files."""
    try:
        context.load_cert_chain(str(certificate), str(key))
    except (OSError, ssl.SSLError) as error:
        raise TlsFileError(f"cannot use certificate {certificate} with key {key}: {_why(error, certificate, key)}") from None


def _load_ca(context: ssl.SSLContext, *, cafile: str | None = None, cadata: str | None = None) -> None:
    try:
        context.load_verify_locations(cafile=cafile, cadata=cadata)
    except (OSError, ssl.SSLError) as error:
        why = _why(error, *([cafile] if cafile else []))
        raise TlsFileError(f"cannot use CA certificates from {cafile or 'inline data'}: {why}") from None


def _why(error: OSError, *files: str | Path) -> str:
    """OpenSSL's reasons name neither the file nor what is wrong with it."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    for file in files:
        with contextlib.suppress(OSError):
            if b"-----BEGIN " not in Path(file).read_bytes():
                return f"{file} holds nothing in PEM form"
    return f"not in PEM form, or damaged ({error.reason or error})"


class ReloadingServerContext:
    """A server's TLS files, read again when they change; ``context`` is what the listener gets, once.

    New handshakes are passed to the latest context through the server-name callback, which OpenSSL calls for every
    handshake, because neither a listener's context nor the CA inside a context can be exchanged. Established
    connections keep what they have. ``watch`` must run in a task of the owner.
    """

    def __init__(
        self,
        certificate: str | Path,
        key: str | Path,
        client_ca: str | Path | None = None,
        prepare: Callable[[ssl.SSLContext], None] = lambda context: None,
    ) -> None:
        """``prepare`` is called with every context that is made, before it is used."""
        self._files = (certificate, key, client_ca)
        self._prepare = prepare
        self._stamp = self._stamps()
        self._current = self._make()
        self.context = self._make()
        self.context.sni_callback = self._choose

    def _make(self) -> ssl.SSLContext:
        context = server_context(*self._files)
        self._prepare(context)
        return context

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (os.stat(path) for path in self._files if path is not None))

    def reload_if_changed(self) -> bool:
        """Read the files again if any changed; broken files are reported and the old ones stay in use."""
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return False
            self._current = self._make()
        except (OSError, ValueError) as error:
            _log.error("Cannot reload TLS files, keeping the old ones", err=error)
            return False
        self._stamp = stamp
        _log.info("Reloaded TLS files", certificate=str(self._files[0]))
        return True

    async def watch(self, clock: Clock, period: float = 60.0) -> None:
        """Look at the files every ``period`` seconds, for ever."""
        while True:
            await clock.sleep(period)
            self.reload_if_changed()
