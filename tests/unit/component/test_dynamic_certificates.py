"""Certificates by server name, what may be chosen of TLS, and client certificates that are judged after the handshake."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509 as x
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from component import serving, tls, x509
from component.client_certificates import Authorities, UntrustedCertificateError
from component.dynamic_certificates import CaBundle, Files, NamedPair, ServingCertificates, parse_named_pair

NOW = datetime.now(UTC) + timedelta(hours=12)  # a moment in the life of what is issued while these tests run


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pki")
    ca = x509.new_ca("test-ca")
    ca.save(root / "ca.crt", root / "ca.key")
    for name, names in {
        "default": ["localhost"],
        "shop": ["shop.example.com", "shop.test"],
        "wild": ["*.example.com"],
        "other": ["other"],
    }.items():
        x509.issue(ca, x509.Request(name, (), names, usages=(x509.SERVER,))).save(root / f"{name}.crt", root / f"{name}.key")
    return root


def pair(pki: Path, name: str, *names: str) -> NamedPair:
    return NamedPair(pki / f"{name}.crt", pki / f"{name}.key", names)


@asynccontextmanager
async def serves(certificates: ServingCertificates) -> AsyncIterator[int]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello")

    async with serving.listening(handle, "127.0.0.1", 0, certificates.context) as address:
        yield address.port


async def shown(port: int, server_name: str | None, context: ssl.SSLContext | None = None) -> str:
    """The common name of the certificate that a client is shown who asks for ``server_name``."""
    context = context or tls.client_context(insecure=True)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_name or "")
    connection = writer.get_extra_info("ssl_object")
    certificate = x509.parse(connection.getpeercert(binary_form=True))
    writer.close()
    return certificate.common_name


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("shop.example.com", "shop"),
        ("SHOP.example.com", "shop"),
        ("any.example.com", "wild"),
        ("a.b.example.com", "default"),
        ("named.internal", "other"),
        ("deep.star.internal", "other"),
        ("elsewhere", "default"),
        (None, "default"),
    ],
    ids=str,
)
async def test_a_client_is_shown_the_certificate_for_the_name_it_asks_for(pki: Path, asked: str | None, name: str) -> None:
    named = (pair(pki, "shop"), pair(pki, "wild"), pair(pki, "other", "named.internal", "*.star.internal"))
    async with serves(ServingCertificates(Files(pki / "default.crt", pki / "default.key", named=named))) as port:
        assert await shown(port, asked) == name


async def test_a_name_that_is_given_counts_before_one_that_is_found(pki: Path) -> None:
    named = (pair(pki, "shop"), pair(pki, "other", "shop.test"))
    async with serves(ServingCertificates(Files(pki / "default.crt", pki / "default.key", named=named))) as port:
        assert await shown(port, "shop.test") == "other"
        assert await shown(port, "shop.example.com") == "shop"


async def test_a_renewed_certificate_counts_for_its_names(pki: Path, tmp_path: Path) -> None:
    def install(name: str) -> None:
        for kind in ("crt", "key"):
            (tmp_path / f"named.{kind}").write_bytes((pki / f"{name}.{kind}").read_bytes())

    install("shop")
    named = (NamedPair(tmp_path / "named.crt", tmp_path / "named.key", ("x.test",)),)
    certificates = ServingCertificates(Files(pki / "default.crt", pki / "default.key", named=named))
    async with serves(certificates) as port:
        assert await shown(port, "x.test") == "shop"
        install("other")
        assert certificates.reload_if_changed()
        assert await shown(port, "x.test") == "other"
        assert await shown(port, "localhost") == "default"


async def test_a_client_gets_what_the_file_holds_though_the_server_knows_its_authority(pki: Path, tmp_path: Path) -> None:
    async def chain(certificate: Path) -> list[str]:
        certificates = ServingCertificates(Files(certificate, pki / "default.key", (pki / "ca.crt",)))
        async with serves(certificates) as port:
            context = tls.client_context(insecure=True)
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
            sent = writer.get_extra_info("ssl_object")._sslobj.get_unverified_chain()
            writer.close()
            return [x509.parse(each.public_bytes(2)).common_name for each in sent]

    assert await chain(pki / "default.crt") == ["default"]
    both = tmp_path / "both.crt"
    both.write_bytes((pki / "default.crt").read_bytes() + (pki / "ca.crt").read_bytes())
    assert await chain(both) == ["default", "test-ca"]


async def test_old_clients_are_refused_where_only_tls_1_3_is_offered(pki: Path) -> None:
    files = Files(pki / "default.crt", pki / "default.key", profile=tls.profile("VersionTLS13"))
    old = tls.client_context(insecure=True)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serves(ServingCertificates(files)) as port:
        assert await shown(port, "localhost") == "default"
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await shown(port, "localhost", old)


async def test_only_chosen_suites_are_offered(pki: Path) -> None:
    chosen = tls.profile(suites=["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"])
    client = tls.client_context(insecure=True)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serves(ServingCertificates(Files(pki / "default.crt", pki / "default.key", profile=chosen))) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        assert writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
        writer.close()
        client.set_ciphers("ECDHE+AESGCM")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")


@pytest.mark.parametrize(
    ("minimum", "suites", "words"),
    [
        ("VersionTLS9", [], 'unknown tls version "VersionTLS9"'),
        ("VersionTLS10", [], "VersionTLS10 is broken and not offered"),
        ("", ["TLS_NONE"], "Cipher suite TLS_NONE not supported or doesn't exist"),
        ("", ["TLS_RSA_WITH_RC4_128_SHA"], "not supported or doesn't exist"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(minimum: str, suites: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tls.profile(minimum, suites)


def test_every_suite_is_one_that_openssl_has() -> None:
    for suite in tls._SUITES:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(tls.profile(suites=[suite]).ciphers)


def test_named_pairs_are_written_as_upstream_writes_them() -> None:
    assert parse_named_pair("a.crt,a.key") == NamedPair(Path("a.crt"), Path("a.key"))
    assert parse_named_pair("a.crt,a.key:x,*.y").names == ("x", "*.y")
    for wrong in ("a.crt", "a.crt,", "a,b,c"):
        with pytest.raises(ValueError, match="expected comma separated certificate and key file paths"):
            parse_named_pair(wrong)


def test_a_bundle_is_read_again_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    one, two = x509.new_ca("one"), x509.new_ca("two")
    path.write_bytes(one.certificate)
    bundle = CaBundle(path)
    authorities = Authorities(bundle.current)

    def believed(ca: x509.KeyPair) -> bool:
        der = _der(x509.issue(ca, x509.Request("me", ("team",), usages=(x509.CLIENT,))))
        try:
            return authorities.subject([der], NOW) == ("me", ("team",))
        except UntrustedCertificateError:
            return False

    assert (believed(one), believed(two)) == (True, False)
    path.write_text("garbage")
    assert not bundle.reload_if_changed()
    assert believed(one)
    path.write_bytes(one.certificate + two.certificate)
    assert bundle.reload_if_changed()
    assert (believed(one), believed(two)) == (True, True)
    path.write_bytes(two.certificate)
    assert bundle.reload_if_changed()
    assert (believed(one), believed(two)) == (False, True)


@pytest.mark.parametrize(
    ("request_", "moment", "words"),
    [
        (x509.Request("me", usages=(x509.SERVER,)), NOW, "incompatible key usage"),
        (x509.Request("me", usages=(x509.CLIENT,)), NOW + timedelta(days=400), "expired"),
        (x509.Request("me", usages=(x509.CLIENT,)), NOW - timedelta(days=1), "not yet valid"),
    ],
    ids=["server", "old", "early"],
)
def test_certificates_that_count_for_nothing(request_: x509.Request, moment: datetime, words: str) -> None:
    ca = x509.new_ca("one")
    authorities = Authorities(lambda: ca.certificate)
    with pytest.raises(UntrustedCertificateError, match=words):
        authorities.subject([_der(x509.issue(ca, request_))], moment)
    with pytest.raises(UntrustedCertificateError, match="malformed"):
        authorities.subject([b"\x30\x00"], NOW)


def _der(issued: x509.KeyPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.certificate.decode())


def chained(
    ca: x509.KeyPair, name: str, *, authority: bool, path_length: int | None = None, extra: x.ExtensionType | None = None
) -> x509.KeyPair:
    """A certificate by hand, for what ``component.x509`` does not make: CAs under a CA, and odd extensions."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x.load_pem_x509_certificate(ca.certificate)
    issuer_key: Any = serialization.load_pem_private_key(ca.key, None)
    builder = (
        x.CertificateBuilder().subject_name(x.Name([x.NameAttribute(NameOID.COMMON_NAME, name)])).issuer_name(issuer.subject)
    )
    builder = builder.public_key(key.public_key()).serial_number(x.random_serial_number())
    builder = builder.not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=1))
    builder = builder.add_extension(x.BasicConstraints(ca=authority, path_length=path_length), critical=True)
    if extra is not None:
        builder = builder.add_extension(extra, critical=True)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return x509.KeyPair(builder.sign(issuer_key, hashes.SHA256()).public_bytes(pem), private)


ROOT_CA = x509.new_ca("root")
MIDDLE = chained(ROOT_CA, "middle", authority=True)
LOWER = chained(MIDDLE, "lower", authority=True)
NARROW = chained(ROOT_CA, "narrow", authority=True, path_length=0)
BELOW = chained(NARROW, "below", authority=True)
NO_CA = chained(ROOT_CA, "no-ca", authority=False)
FOR_SERVERS = chained(ROOT_CA, "servers", authority=True, extra=x.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))
NAMED = chained(ROOT_CA, "named", authority=True, extra=x.NameConstraints([x.DNSName("example.com")], None))


@pytest.mark.parametrize(
    ("chain", "believed"),
    [
        pytest.param([chained(ROOT_CA, "me", authority=False)], True, id="direct"),
        pytest.param([chained(MIDDLE, "me", authority=False), MIDDLE], True, id="through one"),
        pytest.param([chained(LOWER, "me", authority=False), MIDDLE, LOWER], True, id="through two, in any order"),
        pytest.param([chained(LOWER, "me", authority=False), LOWER], False, id="with a gap"),
        pytest.param([chained(MIDDLE, "me", authority=False)], False, id="without it"),
        pytest.param([chained(NO_CA, "me", authority=False), NO_CA], False, id="through no CA"),
        pytest.param([chained(NARROW, "me", authority=False), NARROW], True, id="path length"),
        pytest.param([chained(BELOW, "me", authority=False), BELOW, NARROW], False, id="path length exceeded"),
        pytest.param([chained(FOR_SERVERS, "me", authority=False), FOR_SERVERS], False, id="through a CA for servers"),
        pytest.param([chained(NAMED, "me", authority=False), NAMED], False, id="rules that are not judged"),
        pytest.param([chained(x509.new_ca("root"), "me", authority=False), ROOT_CA], False, id="a namesake"),
    ],
)
def test_intermediate_authorities_that_the_client_brings(chain: list[x509.KeyPair], believed: bool) -> None:
    authorities = Authorities(lambda: ROOT_CA.certificate)
    ders = [_der(one) for one in chain]
    if believed:
        assert authorities.subject(ders, NOW) == ("me", ())
        return
    with pytest.raises(UntrustedCertificateError, match="unknown authority"):
        authorities.subject(ders, NOW)


async def test_a_server_sees_the_whole_chain(pki: Path, tmp_path: Path) -> None:
    me = chained(LOWER, "me", authority=False)
    x509.KeyPair(me.certificate + LOWER.certificate + MIDDLE.certificate, me.key).save(tmp_path / "me.crt", tmp_path / "me.key")
    (tmp_path / "root.crt").write_bytes(ROOT_CA.certificate)
    certificates = ServingCertificates(Files(pki / "default.crt", pki / "default.key", (tmp_path / "root.crt",)))
    seen: list[tuple[bytes, ...]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        seen.append(tls.peer_chain(request.transport.get_extra_info("ssl_object")))
        return web.Response()

    async with serving.listening(handle, "127.0.0.1", 0, certificates.context) as address, aiohttp.ClientSession() as http:
        for files in ({"certificate": tmp_path / "me.crt", "key": tmp_path / "me.key"}, {}):
            context = tls.client_context(insecure=True, **files)
            async with http.get(address.url, ssl=context, headers={"Connection": "close"}) as answer:
                assert answer.status == 200
    assert seen == [(_der(me), _der(LOWER), _der(MIDDLE)), ()]
    assert Authorities(lambda: ROOT_CA.certificate).subject(seen[0], NOW) == ("me", ())
