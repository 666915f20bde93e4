"""Client certificates: CN is the user, each O a group. ``component.client_certificates`` judges them.

Once per connection: ``filters.authenticate`` remembers the outcome for a while.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from cryptography import x509

from component.client_certificates import Authorities, UntrustedCertificateError, credential_id, load, subject
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo

_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # Kubernetes' own attribute of a subject


class ClientCertificates:
    """Accepts certificates that lead to one of the CAs in a PEM bundle, which may change."""

    def __init__(self, ca_bundle: Callable[[], bytes], *, with_uid: bool = True) -> None:
        """``with_uid``: the gate AllowParsingUserUIDFromCertAuth. Raises ValueError when the bundle holds no certificate."""
        self._authorities, self._with_uid = Authorities(ca_bundle), with_uid

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        if credentials.peer_certificate is None:
            return None
        return user_of(self.verified(credentials.peer_certificate, credentials.intermediates), with_uid=self._with_uid)

    def verified(self, der: bytes, intermediates: Sequence[bytes] = ()) -> x509.Certificate:
        """Raises AuthenticationFailed for a certificate that counts for nothing."""
        try:
            certificate = load(der)
            self._authorities.verify(certificate, datetime.now(UTC), intermediates)
        except UntrustedCertificateError as refused:
            raise AuthenticationFailed(str(refused)) from None
        return certificate


def user_of(certificate: x509.Certificate, *, with_uid: bool = True) -> UserInfo:
    """Raises AuthenticationFailed for a subject without a common name, which names nobody, or with a UID that cannot be one."""
    try:
        name, groups = subject(certificate)
    except UntrustedCertificateError as refused:
        raise AuthenticationFailed(str(refused)) from None
    uids = [each.value for each in certificate.subject.get_attributes_for_oid(_UID)] if with_uid else []
    if len(uids) > 1:
        raise AuthenticationFailed("expected 1 UID, but found multiple")
    if uids and (not isinstance(uids[0], str) or not uids[0]):
        raise AuthenticationFailed("UID cannot be an empty string" if uids[0] == "" else "unable to parse UID into a string")
    extra = {"authentication.kubernetes.io/credential-id": [credential_id(certificate)]}
    return UserInfo(name, str(uids[0]) if uids else "", groups, extra)
