"""Client certificates: is one issued by an authority of ours, for clients, and within its dates; and whom does it name.

``dynamic_certificates`` lets any certificate through the handshake, because Python's ``CERT_OPTIONAL`` drops a connection whose
certificate does not verify, where upstream answers 401 or tries the token. The API server's ``authentication.x509`` and
``client.delegation`` (kubelet, scheduler, controller manager) judge it here. cryptography's own client verifier refuses
certificates without SANs, which all Kubernetes client certificates are.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MOST_INTERMEDIATES = 5
_UNDERSTOOD = frozenset({x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage})


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

    def verify(self, certificate: x509.Certificate, now: datetime, others: Sequence[bytes] = ()) -> None:
        """Raises UntrustedCertificateError unless it is for client use, within its dates, and leads to a known CA.

        ``others`` are certificates (DER) that the client sent along: authorities on the way, if they are that.
        """
        try:
            self._verify(certificate, now, others)
        except ValueError:  # extensions are read late
            raise UntrustedCertificateError("x509: malformed certificate") from None

    def _verify(self, certificate: x509.Certificate, now: datetime, others: Sequence[bytes]) -> None:
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise UntrustedCertificateError("x509: certificate has expired or is not yet valid")
        if not _for_clients(certificate):
            raise UntrustedCertificateError("x509: certificate specifies an incompatible key usage")
        if not self._leads_here(certificate, now, _authorities_among(others), 0):
            raise UntrustedCertificateError("x509: certificate signed by unknown authority")

    def _leads_here(self, certificate: x509.Certificate, now: datetime, others: list[x509.Certificate], below: int) -> bool:
        """Whether a known CA issued it, or an authority that leads to one. ``below`` counts the authorities under it."""
        if any(_issued_by(certificate, authority, now) for authority in self._current()):
            return True
        for position, other in enumerate(others):
            if not _issued_by(certificate, other, now) or not _may_stand_above(other, below):
                continue
            if self._leads_here(other, now, others[:position] + others[position + 1 :], below + 1):
                return True
        return False

    def subject(self, chain: Sequence[bytes], now: datetime) -> tuple[str, tuple[str, ...]]:
        """Common name and organizations of a verified certificate, the first one. Raises UntrustedCertificateError."""
        certificate = load(chain[0])
        self.verify(certificate, now, chain[1:])
        return subject(certificate)


def load(der: bytes) -> x509.Certificate:
    """Raises UntrustedCertificateError."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise UntrustedCertificateError("x509: malformed certificate") from None


def subject(certificate: x509.Certificate) -> tuple[str, tuple[str, ...]]:
    """Common name and organizations. Raises UntrustedCertificateError for a subject without a common name: it names nobody.

    Of several common names the last one counts, as in Go: whoever approves a request for a certificate reads it the same way.
    """
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        raise UntrustedCertificateError("x509: subject with organizations but no common name")
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[-1].value), tuple(str(part.value) for part in organizations)


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


def _authorities_among(others: Sequence[bytes]) -> list[x509.Certificate]:
    """What can be read, and no more than a real chain has: each is verified against each."""
    found = []
    for der in others[:MOST_INTERMEDIATES]:
        try:
            found.append(x509.load_der_x509_certificate(der))
        except ValueError:
            continue
    return found


def _may_stand_above(certificate: x509.Certificate, below: int) -> bool:
    """An authority by its own words, for clients too, and with room for the ``below`` authorities under it.

    One with rules that are not judged here (name constraints, anything critical) is none.
    """
    found = {type(extension.value): extension for extension in certificate.extensions}
    constraints, usage = found.get(x509.BasicConstraints), found.get(x509.KeyUsage)
    if constraints is None or not constraints.value.ca or x509.NameConstraints in found:
        return False
    if constraints.value.path_length is not None and constraints.value.path_length < below:
        return False
    if usage is not None and not usage.value.key_cert_sign:
        return False
    return _for_clients(certificate) and not any(one.critical and kind not in _UNDERSTOOD for kind, one in found.items())


def _for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage
