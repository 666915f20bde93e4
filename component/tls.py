"""TLS contexts from certificate files, for servers and clients. ``dynamic_certificates`` renews them in a running server.

Only the standard library's ``ssl``: connections never pay for ``cryptography``.
"""

import contextlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from component.errors import OperatorError

_ENCODING_DER = 2  # _ssl.ENCODING_DER


class TlsFileError(OperatorError, ValueError):
    """A certificate, key or CA cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a server offers. ``ciphers`` is an OpenSSL list for TLS 1.2; those of 1.3 are not for choosing, as in Go.

    The default is what upstream offers: forward secret and authenticated.
    """

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = "ECDHE+AESGCM:ECDHE+CHACHA20"


DEFAULT_PROFILE = Profile()
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITES = {
    **{
        f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
        for key in ("ECDSA", "RSA")
        for go, openssl in {
            "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
            "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
            "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
            "CHACHA20_POLY1305": "CHACHA20-POLY1305",
            "AES_128_CBC_SHA256": "AES128-SHA256",
            "AES_128_CBC_SHA": "AES128-SHA",
            "AES_256_CBC_SHA": "AES256-SHA",
        }.items()
    },
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}


def profile(minimum: str = "", suites: Sequence[str] = ()) -> Profile:
    """From ``--tls-min-version`` and ``--tls-cipher-suites``, in Go's names. Raises ValueError in upstream's words."""
    if minimum in ("VersionTLS10", "VersionTLS11"):
        raise ValueError(f"tls version {minimum} is broken and not offered; choose VersionTLS12 or VersionTLS13")
    if minimum and minimum not in _VERSIONS:
        raise ValueError(f'unknown tls version "{minimum}"')
    version = _VERSIONS.get(minimum, DEFAULT_PROFILE.minimum)
    for suite in suites:
        if suite not in _SUITES and suite not in _TLS13_SUITES:
            raise ValueError(f"Cipher suite {suite} not supported or doesn't exist")
    if not suites:
        return Profile(version)
    chosen = [_SUITES[suite] for suite in suites if suite in _SUITES]
    if not chosen:  # nothing of TLS 1.2 is left
        return Profile(ssl.TLSVersion.TLSv1_3)
    return Profile(version, ":".join(chosen))


def server_context(
    certificate: str | Path,
    key: str | Path,
    *client_cas: str | Path | None,
    alpn: Sequence[str] = ("http/1.1",),
    profile: Profile = DEFAULT_PROFILE,
) -> ssl.SSLContext:
    """TLS for a server. With ``client_cas`` clients are asked for a certificate but may come without one.

    :raises TlsFileError: naming the file that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = profile.minimum
    context.set_ciphers(profile.ciphers)
    context.set_alpn_protocols(list(alpn))
    context.num_tickets = 0  # Kubernetes' clients keep connections and never resume them: tickets are a seventh of a handshake
    load_pair(context, certificate, key)
    for client_ca in client_cas:
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


def peer_chain(connection: Any) -> tuple[bytes, ...]:
    """What the other side of a TLS connection showed, DER, its own certificate first; empty when it showed nothing.

    Nothing of it has been verified. ``connection`` is an ``ssl.SSLObject`` or what has its methods.
    """
    leaf: bytes | None = connection.getpeercert(True)
    if leaf is None:
        return ()
    inner: Any = getattr(connection, "_sslobj", None)  # public only from Python 3.13 on
    chain = inner.get_unverified_chain() if hasattr(inner, "get_unverified_chain") else None
    return (leaf, *(_der(one) for one in (chain or ())[1:]))


def _der(certificate: Any) -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    data: bytes = certificate.public_bytes(_ENCODING_DER)
    return data
