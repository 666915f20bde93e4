from datetime import UTC, datetime, timedelta

import pytest

from component import x509

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def ca():
    return x509.new_ca("kubernetes-ca", now=NOW)


def test_a_ca_says_that_it_is_one(ca):
    parsed = x509.parse(ca.certificate)
    assert parsed.is_ca
    assert parsed.common_name == "kubernetes-ca"
    assert parsed.not_before == NOW - timedelta(minutes=5)
    assert parsed.not_after == NOW + x509.CA_LIFETIME


def test_an_issued_certificate_says_what_was_asked(ca):
    request = x509.Request("kube-apiserver", ["g1", "g2"], ["kubernetes", "a.b"], ["10.96.0.1", "::1"], ("server", "client"))
    parsed = x509.parse(x509.issue(ca, request, now=NOW).certificate)
    assert parsed.organizations == ("g1", "g2")
    assert parsed.dns_names == ("kubernetes", "a.b")
    assert parsed.ip_addresses == ("10.96.0.1", "::1")
    assert set(parsed.usages) == {"server", "client"}
    assert parsed.not_after == NOW + x509.LEAF_LIFETIME
    assert not parsed.is_ca
    assert parsed.issuer == "CN=kubernetes-ca"


def test_no_certificate_outlives_its_issuer(ca):
    request = x509.Request("x", lifetime=timedelta(days=100_000))
    assert x509.parse(x509.issue(ca, request, now=NOW).certificate).not_after == NOW + x509.CA_LIFETIME


def test_names_longer_than_the_standard_are_signed(ca):
    name = "system:node:" + "a" * 100
    assert x509.parse(x509.issue(ca, x509.Request(name), now=NOW).certificate).common_name == name


def test_a_request_is_signed_with_the_usages_of_the_signer(ca):
    csr = x509.new_csr(x509.new_key(), x509.Request("system:node:n1", ["system:nodes"], ["n1"], ["10.0.0.1"]))
    parsed = x509.parse(x509.sign_csr(ca, csr, usages=[x509.CLIENT], now=NOW))
    assert (parsed.common_name, parsed.organizations, parsed.usages) == ("system:node:n1", ("system:nodes",), ("client",))
    assert (parsed.dns_names, parsed.ip_addresses) == (("n1",), ("10.0.0.1",))


def test_keys_are_readable_by_their_owner_alone(ca, tmp_path):
    ca.save(tmp_path / "ca.crt", tmp_path / "ca.key")
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.crt").stat().st_mode & 0o777 == 0o644
    assert x509.KeyPair.load(tmp_path / "ca.crt", tmp_path / "ca.key") == ca
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "ca.key"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    x509.write_private(path, b"old")
    with pytest.raises(TypeError):
        x509.write_private(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_public_half_of_a_key():
    assert x509.public_key(x509.new_key()).startswith(b"-----BEGIN PUBLIC KEY-----")
