"""The certificate files of a running server, read again when they change: what it shows, and whom it believes.

A daemon's wiring makes one :class:`ServingCertificates` for its port and one :class:`CaBundle` per authority, and runs
:func:`watch` over them. Established connections keep what they have.
"""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from component import logs, tls
from component.clock import Clock
from component.tls_chain import send_own_chain_only
from component.tls_verdict import leave_verdict_to_application

PERIOD = 10.0  # seconds between two looks at the files
_Stamp = tuple[tuple[int, int, int], ...]
_log = logs.get(__name__)


class Reloading(Protocol):
    """Something made of files."""

    def reload_if_changed(self) -> bool:
        """Read the files again if any changed. What cannot be used is reported, and the old stays in use."""
        ...


async def watch(clock: Clock, *watched: Reloading, period: float = PERIOD) -> None:
    """Look at the files every ``period`` seconds, for ever."""
    while True:
        await clock.sleep(period)
        for one in watched:
            one.reload_if_changed()


def stamps(files: Sequence[str | Path]) -> _Stamp:
    """What tells whether a file is another one than before. Raises OSError."""
    found = [os.stat(path) for path in files]
    return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in found)


class CaBundle:
    """A file of CA certificates; ``pem`` is what it held when it was last good, a new object after each change."""

    def __init__(self, path: Path) -> None:
        """Raises TlsFileError, OSError."""
        self._path = path
        self._stamp = stamps((path,))
        self.pem = self._read()

    def current(self) -> bytes:
        """See ``client_certificates.Authorities``."""
        return self.pem

    def _read(self) -> bytes:
        data = self._path.read_bytes()
        try:
            tls.client_context(ca_data=data.decode("ascii", "replace"))
        except tls.TlsFileError:
            raise tls.TlsFileError(f"{self._path}: holds nothing in PEM form, or is damaged") from None
        return data

    def reload_if_changed(self) -> bool:
        try:
            stamp = stamps((self._path,))
            if stamp == self._stamp:
                return False
            self.pem, self._stamp = self._read(), stamp
        except (OSError, ValueError) as error:
            _log.error("Cannot read the changed CA certificates, keeping the old ones", path=str(self._path), err=error)
            return False
        _log.info("Read CA certificates again", path=str(self._path))
        return True


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate for clients that ask for one of ``names`` (``*.example.com`` too); empty: those in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """What a port is made of. ``client_cas`` are the authorities whose certificates clients are asked for."""

    certificate: Path
    key: Path
    client_cas: tuple[Path, ...] = ()
    named: tuple[NamedPair, ...] = ()
    profile: tls.Profile = tls.DEFAULT_PROFILE

    def paths(self) -> list[Path]:
        pairs = [(self.certificate, self.key), *((pair.certificate, pair.key) for pair in self.named)]
        return [path for pair in pairs for path in pair] + list(self.client_cas)


@dataclass(frozen=True, slots=True)
class _Contexts:
    default: ssl.SSLContext
    by_name: dict[str, ssl.SSLContext]

    def of(self, server_name: str | None) -> ssl.SSLContext:
        """As Go chooses: the name itself, then with its labels replaced by stars from the left."""
        if not server_name or not self.by_name:
            return self.default
        name = server_name.lower().rstrip(".")
        labels = name.split(".")
        candidates = [name, *(".".join(["*"] * count + labels[count:]) for count in range(1, len(labels) + 1))]
        return next((self.by_name[one] for one in candidates if one in self.by_name), self.default)


class ServingCertificates:
    """``context`` is what the listener gets, once; new handshakes are passed to the latest contexts.

    Through the server-name callback, which OpenSSL calls for every handshake, because neither a listener's context nor the
    CA inside a context can be exchanged. Any client certificate passes the handshake (``tls_verdict``):
    ``client_certificates`` judges it.
    """

    def __init__(self, files: Files) -> None:
        """Raises TlsFileError, OSError."""
        self._files = files
        self._stamp = stamps(files.paths())
        self._current = self._make()
        self.context = self._one(files.certificate, files.key)
        self.context.sni_callback = self._choose

    def _make(self) -> _Contexts:
        by_name: dict[str, ssl.SSLContext] = {}
        extracted: dict[str, ssl.SSLContext] = {}
        for pair in self._files.named:
            context = self._one(pair.certificate, pair.key)
            for name in pair.names or _names_in(pair.certificate):
                # names that were given count before those found in certificates, and among equals the first
                (by_name if pair.names else extracted).setdefault(name.lower(), context)
        return _Contexts(self._one(self._files.certificate, self._files.key), extracted | by_name)

    def _one(self, certificate: Path, key: Path) -> ssl.SSLContext:
        context = tls.server_context(certificate, key, *self._files.client_cas, profile=self._files.profile)
        if context.verify_mode is ssl.CERT_OPTIONAL:
            leave_verdict_to_application(context)
        send_own_chain_only(context)
        return context

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current.of(server_name)

    def reload_if_changed(self) -> bool:
        try:
            stamp = stamps(self._files.paths())
            if stamp == self._stamp:
                return False
            self._current = self._make()
        except (OSError, ValueError) as error:
            _log.error("Cannot reload TLS files, keeping the old ones", err=error)
            return False
        self._stamp = stamp
        _log.info("Reloaded TLS files", certificate=str(self._files.certificate))
        return True


def _names_in(certificate: Path) -> tuple[str, ...]:
    """DNS names of a certificate, or its common name where there are none."""
    from component import x509  # heavy, and seldom needed

    found = x509.parse(certificate.read_bytes())
    return found.dns_names or ((found.common_name,) if found.common_name else ())


def parse_named_pair(text: str) -> NamedPair:
    """``--tls-sni-cert-key``: ``cert,key`` or ``cert,key:name,*.name``. Raises ValueError in upstream's words."""
    files, _, names = text.partition(":")
    parts = files.split(",")
    if len(parts) != 2 or not all(parts):
        raise ValueError("expected comma separated certificate and key file paths")
    return NamedPair(Path(parts[0]), Path(parts[1]), tuple(name.strip() for name in names.split(",") if name.strip()))
