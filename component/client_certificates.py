"""Client certificates: is one issued by an authority of ours, for clients, and within its dates; and whom does it name.

``dynamic_certificates`` lets any certificate through the handshake, because Python's ``CERT_OPTIONAL`` drops a connection whose
certificate does not verify, where upstream answers 401 or tries the token. The API server's ``authentication.x509`` and
``client.delegation`` (kubelet, scheduler, controller manager) judge it here. cryptography's own client verifier refuses
certificates without SANs, which all Kubernetes client certificates are.
"""

from collections.abc import Callable
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class UntrustedCertificateError(Exception):
    """A certificate that counts for nothing; the text says why, in Go's words."""


class Authorities:
    """The certificates of a PEM bundle that may change: ``pem`` is asked for each certificate, and cheap."""

    def __init__(self, pem: Callable[[], bytes]) -> None:
        """Raises ValueError when the bundle holds no certificate."""
        self._pem = pem
        self._parsed = b""
        self._authorities: list[x509.Certificate] = []
        self._current()

    def _current(self) -> list[x509.Certificate]:
        data = self._pem()
        if data is not self._parsed:
            self._authorities = x509.load_pem_x509_certificates(data)
            self._parsed = data
        return self._authorities

    def verify(self, certificate: x509.Certificate, now: datetime) -> None:
        """Raises UntrustedCertificateError unless a known CA issued it directly for client use and it is within its dates."""
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise UntrustedCertificateError("x509: certificate has expired or is not yet valid")
        if not _for_clients(certificate):
            raise UntrustedCertificateError("x509: certificate specifies an incompatible key usage")
        if not any(_issued_by(certificate, authority, now) for authority in self._current()):
            raise UntrustedCertificateError("x509: certificate signed by unknown authority")

    def subject(self, der: bytes, now: datetime) -> tuple[str, tuple[str, ...]]:
        """Common name and organizations of a verified certificate. Raises UntrustedCertificateError."""
        certificate = load(der)
        self.verify(certificate, now)
        return subject(certificate)


def load(der: bytes) -> x509.Certificate:
    """Raises UntrustedCertificateError."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise UntrustedCertificateError("x509: malformed certificate") from None


def subject(certificate: x509.Certificate) -> tuple[str, tuple[str, ...]]:
    """Common name and organizations. Raises UntrustedCertificateError for a subject without a common name: it names nobody."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[0].value:
        raise UntrustedCertificateError("x509: subject with organizations but no common name")
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value), tuple(str(part.value) for part in organizations)


def credential_id(certificate: x509.Certificate) -> str:
    """How the certificate is named in a user's extra values."""
    return f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate, now: datetime) -> bool:
    if certificate.issuer != authority.subject or not authority.not_valid_before_utc <= now <= authority.not_valid_after_utc:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage
