"""Certificates: a CA, signed key pairs, what a certificate says, and the TLS contexts made of files.

Used by ``bootstrap.pki``, by servers (with reload when files change) and by the client transport. ``cryptography`` costs
several megabytes, so only the functions that make or read certificates import it.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

BACKDATE = timedelta(minutes=5)
"""How long before now a certificate begins, so that a machine with a slow clock accepts it."""
CA_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
SERVER, CLIENT = "server", "client"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def save(self, certificate_path: Path, key_path: Path) -> None:
        """Write both, each atomically; the key is readable by its owner alone."""
        write_private(key_path, self.key)
        write_private(certificate_path, self.certificate, mode=0o644)

    @classmethod
    def load(cls, certificate_path: Path, key_path: Path) -> "KeyPair":
        return cls(certificate_path.read_bytes(), key_path.read_bytes())


@dataclass(frozen=True, slots=True)
class Request:
    """What a certificate shall say. ``usages`` holds ``SERVER``, ``CLIENT`` or both."""

    common_name: str
    organizations: Sequence[str] = ()
    dns_names: Sequence[str] = ()
    ip_addresses: Sequence[str] = ()
    usages: Sequence[str] = (SERVER,)
    lifetime: timedelta = LEAF_LIFETIME


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    usages: tuple[str, ...]
    issuer: str
    serial: int
    not_before: datetime
    not_after: datetime
    is_ca: bool
    fingerprint: str
    """SHA-256 of the DER form, in lower-case hexadecimal."""


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically with ``mode`` from its first moment; the directory must exist."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def new_key() -> bytes:
    """A fresh ECDSA P-256 private key, PEM (PKCS #8)."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def public_key(private_key: bytes) -> bytes:
    """The public half of a PEM private key, PEM."""
    from cryptography.hazmat.primitives import serialization

    return _public_pem(serialization.load_pem_private_key(private_key, None).public_key())


def _public_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    encoded: bytes = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded


def new_ca(common_name: str, *, now: datetime | None = None, lifetime: timedelta = CA_LIFETIME) -> KeyPair:
    """A self-signed certificate authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    key_pem = new_key()
    key: Any = serialization.load_pem_private_key(key_pem, None)
    name = _name(common_name, ())
    builder = _dated(x509.CertificateBuilder(), now, lifetime).subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(ca=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return KeyPair(_pem(builder.sign(key, hashes.SHA256())), key_pem)


def issue(ca: KeyPair, request: Request, *, now: datetime | None = None) -> KeyPair:
    """A new key and its certificate, signed by ``ca``."""
    from cryptography.hazmat.primitives import serialization

    key_pem = new_key()
    key: Any = serialization.load_pem_private_key(key_pem, None)
    return KeyPair(_sign(ca, key.public_key(), request, now), key_pem)


def new_csr(key: bytes, request: Request) -> bytes:
    """A PEM certificate signing request for a PEM private key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    private: Any = serialization.load_pem_private_key(key, None)
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(request.common_name, request.organizations))
    if names := _alternative_names(request):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(private, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def sign_csr(
    ca: KeyPair, csr: bytes, *, usages: Sequence[str], lifetime: timedelta = LEAF_LIFETIME, now: datetime | None = None
) -> bytes:
    """The certificate, PEM, that answers a request: its subject and names, but ``usages`` as the signer decides.

    :raises ValueError: when the request is malformed or its own signature is wrong.
    """
    from cryptography import x509

    parsed = x509.load_pem_x509_csr(csr)
    if not parsed.is_signature_valid:
        raise ValueError("the certificate request is not signed by its own key")
    dns, addresses = _read_names(parsed.extensions)
    with _long_names():
        common, organizations = _read_subject(parsed.subject)
    request = Request(common, organizations, dns, addresses, usages, lifetime)
    return _sign(ca, parsed.public_key(), request, now)


def parse(data: bytes) -> Certificate:
    """Read the first certificate of a PEM bundle, or one in DER. Raises ValueError."""
    from cryptography import x509

    pem = data.lstrip().startswith(b"-----")
    with _long_names():
        return _read(x509.load_pem_x509_certificate(data) if pem else x509.load_der_x509_certificate(data))


def is_pair(pair: KeyPair) -> bool:
    """Whether the key is that of the certificate, the first one when there are more."""
    from cryptography import x509

    try:
        with _long_names():
            certificate = x509.load_pem_x509_certificate(pair.certificate)
        return public_key(pair.key) == _public_pem(certificate.public_key())
    except (ValueError, TypeError):
        return False


def belongs(pair: KeyPair, ca: bytes) -> bool:
    """Whether the key of ``pair`` is that of its certificate, and the certificate was signed by ``ca`` (PEM)."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        with _long_names():
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
        return is_pair(pair)
    except (ValueError, TypeError, InvalidSignature):
        return False


@contextmanager
def _long_names() -> Iterator[None]:
    """``cryptography`` warns of a common name past 64 characters, in files that others made, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _read(certificate: "x509.Certificate") -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    extensions = certificate.extensions
    dns, addresses = _read_names(extensions)
    common, organizations = _read_subject(certificate.subject)
    usages: tuple[str, ...] = ()
    is_ca = False
    for extension in extensions:
        if isinstance(extension.value, x509.ExtendedKeyUsage):
            known = {ExtendedKeyUsageOID.SERVER_AUTH: SERVER, ExtendedKeyUsageOID.CLIENT_AUTH: CLIENT}
            usages = tuple(known[oid] for oid in extension.value if oid in known)
        elif isinstance(extension.value, x509.BasicConstraints):
            is_ca = extension.value.ca
    return Certificate(
        common_name=common,
        organizations=organizations,
        dns_names=dns,
        ip_addresses=addresses,
        usages=usages,
        issuer=certificate.issuer.rfc4514_string(),
        serial=certificate.serial_number,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        is_ca=is_ca,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _sign(ca: KeyPair, subject_key: Any, request: Request, now: datetime | None) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(ca.certificate)
    issuer_key: CertificateIssuerPrivateKeyTypes = serialization.load_pem_private_key(ca.key, None)  # type: ignore[assignment]
    purposes = {SERVER: ExtendedKeyUsageOID.SERVER_AUTH, CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}
    builder = _dated(x509.CertificateBuilder(), now, request.lifetime, issuer.not_valid_after_utc)
    builder = builder.subject_name(_name(request.common_name, request.organizations)).issuer_name(issuer.subject)
    builder = builder.public_key(subject_key).serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purposes[usage] for usage in request.usages]), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    builder = builder.add_extension(authority, critical=False)
    if names := _alternative_names(request):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _pem(builder.sign(issuer_key, hashes.SHA256()))


def _dated(
    builder: "x509.CertificateBuilder", now: datetime | None, lifetime: timedelta, no_later: datetime | None = None
) -> "x509.CertificateBuilder":
    begin = now or datetime.now(UTC)
    end = begin + lifetime
    # a certificate that outlives its issuer would fail in a way nobody can read from the certificate itself
    return builder.not_valid_before(begin - BACKDATE).not_valid_after(min(end, no_later) if no_later else end)


def _name(common_name: str, organizations: Sequence[str]) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    # names such as system:node:<long host name> exceed the 64 characters the standard allows; upstream signs them too
    long = len(common_name.encode()) > 64
    with _long_names():
        return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=not long)])


def _alternative_names(request: Request) -> "list[x509.GeneralName]":
    import ipaddress

    from cryptography import x509

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns_names]
    return names + [x509.IPAddress(ipaddress.ip_address(address)) for address in request.ip_addresses]


def _read_subject(name: "x509.Name") -> tuple[str, tuple[str, ...]]:
    from cryptography.x509.oid import NameOID

    common = [str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = tuple(str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return (common[-1] if common else ""), organizations


def _read_names(extensions: "x509.Extensions") -> tuple[tuple[str, ...], tuple[str, ...]]:
    from cryptography import x509

    for extension in extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            dns = tuple(extension.value.get_values_for_type(x509.DNSName))
            return dns, tuple(str(address) for address in extension.value.get_values_for_type(x509.IPAddress))
    return (), ()


def _key_usage(*, ca: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)
