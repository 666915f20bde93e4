"""Client certificates that lead to a known authority by others on the way, which the client sends along."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509 as crypto
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from component import x509
from tests.support.apiserver import TestServer, running_apiserver

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def intermediate(parent: x509.KeyPair, name: str, *, ca: bool = True, path_length: int | None = None) -> x509.KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = crypto.load_pem_x509_certificate(parent.certificate)
    signer: Any = serialization.load_pem_private_key(parent.key, None)
    now = datetime.now(UTC)
    made = (
        crypto.CertificateBuilder()
        .subject_name(crypto.Name([crypto.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(crypto.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(crypto.BasicConstraints(ca=ca, path_length=path_length if ca else None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return x509.KeyPair(made.public_bytes(serialization.Encoding.PEM), private)


async def who(server: TestServer, folder: Path, issuer: x509.KeyPair, *sent: x509.KeyPair) -> str:
    """The user, or the status, of a client whose certificate is ``issuer``'s and who sends the others along."""
    leaf = x509.issue(issuer, x509.Request("jane", ("dev",), usages=(x509.CLIENT,)))
    (folder / "c.crt").write_bytes(leaf.certificate + b"".join(each.certificate for each in sent))
    (folder / "c.key").write_bytes(leaf.key)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(folder / "c.crt", folder / "c.key")
    headers = {"Connection": "close"}
    async with server.session.post(server.url + WHO, json=BODY, ssl=context, headers=headers) as answer:
        body = await answer.json()
        return str(body["status"]["userInfo"]["username"]) if answer.status == 201 else str(answer.status)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with running_apiserver() as started:
        yield started


async def test_a_chain_counts_if_every_link_does(server: TestServer, tmp_path: Path) -> None:
    first = intermediate(server.ca, "first")
    second = intermediate(first, "second")
    assert await who(server, tmp_path, first, first) == "jane"
    assert await who(server, tmp_path, second, second, first) == "jane"
    assert await who(server, tmp_path, second, first, second) == "jane"  # in whatever order
    assert await who(server, tmp_path, first) == "401"  # the server does not know it
    assert await who(server, tmp_path, second, second) == "401"


async def test_not_everybody_is_an_authority(server: TestServer, tmp_path: Path) -> None:
    other = x509.new_ca("kubernetes")  # the same name, another key
    assert await who(server, tmp_path, intermediate(other, "first"), other) == "401"
    client = intermediate(server.ca, "client", ca=False)
    assert await who(server, tmp_path, client, client) == "401"
    narrow = intermediate(server.ca, "narrow", path_length=0)
    assert await who(server, tmp_path, narrow, narrow) == "jane"
    below = intermediate(narrow, "below")
    assert await who(server, tmp_path, below, below, narrow) == "401"
