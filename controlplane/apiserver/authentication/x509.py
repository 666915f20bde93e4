"""Client certificates: CN is the user, each O a group. The chain is verified here, not by the TLS handshake.

Python's ``CERT_OPTIONAL`` drops a connection whose client certificate does not verify, where upstream answers 401 or tries the
token; so ``tls.py`` lets any certificate through and this module judges it, once per connection (``filters.authenticate``
remembers the outcome). cryptography's own client verifier refuses certificates without SANs, which all Kubernetes client
certificates are.
"""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo


class ClientCertificates:
    """Accepts certificates issued directly by one of the CAs in a PEM bundle."""

    def __init__(self, ca_bundle: bytes) -> None:
        self._authorities = x509.load_pem_x509_certificates(ca_bundle)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.peer_certificate is None:
            return None
        try:
            certificate = x509.load_der_x509_certificate(credentials.peer_certificate)
        except ValueError as broken:
            raise AuthenticationFailed("x509: malformed certificate") from broken
        self.verify(certificate, datetime.now(UTC))
        return user_of(certificate)

    def verify(self, certificate: x509.Certificate, now: datetime) -> None:
        """Raises AuthenticationFailed unless a known CA issued it for client use and it is within its dates."""
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise AuthenticationFailed("x509: certificate has expired or is not yet valid")
        if not _for_clients(certificate):
            raise AuthenticationFailed("x509: certificate specifies an incompatible key usage")
        if not any(_issued_by(certificate, authority, now) for authority in self._authorities):
            raise AuthenticationFailed("x509: certificate signed by unknown authority")


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


def user_of(certificate: x509.Certificate) -> UserInfo:
    """Raises AuthenticationFailed for a subject without a common name: it names nobody."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[0].value:
        raise AuthenticationFailed("x509: subject with organizations but no common name")
    groups = tuple(str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"]}
    return UserInfo(str(names[0].value), groups=groups, extra=extra)
