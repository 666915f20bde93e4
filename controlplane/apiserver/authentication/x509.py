"""Client certificates: CN is the user, each O a group. ``component.client_certificates`` judges them.

Once per connection: ``filters.authenticate`` remembers the outcome for a while.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from cryptography import x509

from component.client_certificates import Authorities, UntrustedCertificateError, credential_id, load, subject
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo


class ClientCertificates:
    """Accepts certificates that lead to one of the CAs in a PEM bundle, which may change."""

    def __init__(self, ca_bundle: Callable[[], bytes]) -> None:
        """Raises ValueError when the bundle holds no certificate."""
        self._authorities = Authorities(ca_bundle)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.peer_certificate is None:
            return None
        return user_of(self.verified(credentials.peer_certificate, credentials.intermediates))

    def verified(self, der: bytes, intermediates: Sequence[bytes] = ()) -> x509.Certificate:
        """Raises AuthenticationFailed for a certificate that counts for nothing."""
        try:
            certificate = load(der)
            self._authorities.verify(certificate, datetime.now(UTC), intermediates)
        except UntrustedCertificateError as refused:
            raise AuthenticationFailed(str(refused)) from None
        return certificate


def user_of(certificate: x509.Certificate) -> UserInfo:
    """Raises AuthenticationFailed for a subject without a common name: it names nobody."""
    try:
        name, groups = subject(certificate)
    except UntrustedCertificateError as refused:
        raise AuthenticationFailed(str(refused)) from None
    return UserInfo(name, groups=groups, extra={"authentication.kubernetes.io/credential-id": [credential_id(certificate)]})
