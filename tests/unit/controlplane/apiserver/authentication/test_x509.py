"""Whom a client certificate names: the last common name, every organization, and the one UID."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.apiserver.authentication.interface import AuthenticationFailed
from controlplane.apiserver.authentication.x509 import user_of

UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def certificate(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Certificate:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    return builder.not_valid_before(now).not_valid_after(now + timedelta(hours=1)).sign(key, hashes.SHA256())


def test_a_uid_of_the_subject() -> None:
    made = certificate((NameOID.ORGANIZATION_NAME, "dev"), (UID, "1234"), (NameOID.COMMON_NAME, "jane"))
    user = user_of(made)
    assert (user.name, user.uid, user.groups) == ("jane", "1234", ("dev",))
    assert user_of(made, with_uid=False).uid == ""


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ([(UID, "1"), (UID, "2"), (NameOID.COMMON_NAME, "jane")], "expected 1 UID, but found multiple"),
        ([(NameOID.ORGANIZATION_NAME, "dev")], "x509: subject with organizations but no common name"),
    ],
)
def test_subjects_that_name_nobody(attributes: list[tuple[x509.ObjectIdentifier, str]], problem: str) -> None:
    with pytest.raises(AuthenticationFailed, match=problem):
        user_of(certificate(*attributes))


def test_the_last_common_name_counts() -> None:
    assert user_of(certificate((NameOID.COMMON_NAME, "first"), (NameOID.COMMON_NAME, "last"))).name == "last"
