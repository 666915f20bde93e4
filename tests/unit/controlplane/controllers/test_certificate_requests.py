"""Which requests the signers take, who may be approved unasked, what a signature makes of a request, and when a request goes."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from apimachinery.times import format_time
from component.x509 import CLIENT, SERVER, KeyPair, Request, issue, new_ca, new_csr, new_key, parse
from controlplane.controllers.csr_approving import recognised
from controlplane.controllers.csr_cleaner import has_served
from controlplane.controllers.lib import certificate_requests as requests
from controlplane.controllers.lib.certificate_authority import CertificateAuthority, granted, validity
from controlplane.controllers.lib.certificate_requests import Subject, UnacceptableError
from tests.support.csr import Object, signing_request

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NODE = Subject("system:node:a", ("system:nodes",))
CLIENT_USAGES = ("digital signature", "key encipherment", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
SERVING = Subject("system:node:a", ("system:nodes",), dns_names=("a",), addresses=("10.0.0.1",))


@pytest.mark.parametrize(
    ("signer", "subject", "usages", "problem"),
    [
        (requests.KUBELET_CLIENT_SIGNER, NODE, CLIENT_USAGES, None),
        (requests.KUBELET_CLIENT_SIGNER, NODE, ("client auth", "digital signature"), None),
        (requests.KUBELET_CLIENT_SIGNER, NODE, ("client auth",), "usages did not match"),
        (requests.KUBELET_CLIENT_SIGNER, NODE, (*CLIENT_USAGES, "server auth"), "usages did not match"),
        (requests.KUBELET_CLIENT_SIGNER, Subject("system:node:a"), CLIENT_USAGES, "organization is not system:nodes"),
        (
            requests.KUBELET_CLIENT_SIGNER,
            Subject("system:node:a", ("system:nodes", "system:masters")),
            CLIENT_USAGES,
            "organization is not system:nodes",
        ),
        (requests.KUBELET_CLIENT_SIGNER, Subject("a", ("system:nodes",)), CLIENT_USAGES, "does not begin with 'system:node:'"),
        (requests.KUBELET_CLIENT_SIGNER, SERVING, CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
        (requests.KUBELET_SERVING_SIGNER, SERVING, SERVING_USAGES, None),
        (requests.KUBELET_SERVING_SIGNER, NODE, SERVING_USAGES, "DNS or IP subjectAltName is required"),
        (requests.KUBELET_SERVING_SIGNER, SERVING, CLIENT_USAGES, "usages did not match"),
        (
            requests.KUBELET_SERVING_SIGNER,
            Subject("system:node:a", ("system:nodes",), ("a",), uris=("spiffe://a",)),
            SERVING_USAGES,
            "URI subjectAltNames are not allowed",
        ),
        (requests.CLIENT_SIGNER, Subject("jane", ("team",)), ("client auth",), None),
        (
            requests.CLIENT_SIGNER,
            Subject("jane"),
            ("client auth", "server auth"),
            "invalid usage for client certificate: server auth",
        ),
        (requests.CLIENT_SIGNER, Subject("jane"), ("digital signature",), "missing required usage for client certificate"),
        (requests.LEGACY_SIGNER, Subject("anything"), ("server auth", "cert sign"), None),
    ],
)
def test_what_signers_take(signer: str, subject: Subject, usages: tuple[str, ...], problem: str | None) -> None:
    if problem is None:
        requests.check(signer, subject, usages)
    else:
        with pytest.raises(UnacceptableError, match=problem):
            requests.check(signer, subject, usages)


@pytest.mark.parametrize(
    ("username", "signer", "tried"),
    [
        ("system:node:a", requests.KUBELET_CLIENT_SIGNER, ["selfnodeclient", "nodeclient"]),
        ("system:bootstrap:abcdef", requests.KUBELET_CLIENT_SIGNER, ["nodeclient"]),
        ("system:node:b", requests.KUBELET_CLIENT_SIGNER, ["nodeclient"]),
        ("system:node:a", requests.CLIENT_SIGNER, []),
    ],
)
def test_whom_to_ask_about(username: str, signer: str, tried: list[str]) -> None:
    request, _ = signing_request("system:node:a", ["system:nodes"], signer=signer, usages=CLIENT_USAGES)
    request["spec"]["username"] = username
    assert recognised(request, requests.subject_of(request)) == tried


def test_subject_is_read() -> None:
    request, _ = signing_request(
        "system:node:a", ["system:nodes"], signer=requests.KUBELET_SERVING_SIGNER, usages=SERVING_USAGES, dns=["a.example"]
    )
    assert requests.subject_of(request) == Subject("system:node:a", ("system:nodes",), ("a.example",))
    with pytest.raises(ValueError, match=r".+"):
        requests.subject_of({"spec": {"request": base64.b64encode(b"nothing").decode()}})


@pytest.mark.parametrize(
    ("asked", "lifetime"),
    [(None, timedelta(days=365)), (60, timedelta(minutes=10)), (3600, timedelta(hours=1)), (10**9, timedelta(days=365))],
)
def test_duration(asked: int | None, lifetime: timedelta) -> None:
    assert granted(asked, timedelta(days=365)) == lifetime


def test_short_certificates_are_not_shortened_by_backdating() -> None:
    issuer_end = NOW + timedelta(days=30)
    assert validity(NOW, timedelta(hours=1), issuer_end).end == NOW + timedelta(hours=1)
    assert validity(NOW, timedelta(days=1), issuer_end).end == NOW + timedelta(days=1) - timedelta(minutes=5)
    assert validity(NOW, timedelta(days=365), issuer_end).end == issuer_end
    with pytest.raises(ValueError, match="the signer has expired"):
        validity(NOW, timedelta(days=1), NOW)


def authority(folder: Path) -> CertificateAuthority:
    new_ca("test", now=NOW).save(folder / "ca.crt", folder / "ca.key")
    return CertificateAuthority(folder / "ca.crt", folder / "ca.key")


def test_a_signature_keeps_names_and_takes_no_powers(tmp_path: Path) -> None:
    signer = authority(tmp_path)
    csr = new_csr(new_key(), Request("jane", ("team",), dns_names=("jane.example",), ip_addresses=("10.0.0.1",)))
    pem = signer.sign(csr, CLIENT_USAGES, timedelta(days=1), NOW)
    made, read = x509.load_pem_x509_certificate(pem), parse(pem)
    assert (read.common_name, read.organizations, read.dns_names, read.ip_addresses) == (
        "jane",
        ("team",),
        ("jane.example",),
        ("10.0.0.1",),
    )
    assert read.usages == (CLIENT,)
    assert not read.is_ca
    usage = made.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    made.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))


def test_a_request_must_be_signed_by_its_own_key(tmp_path: Path) -> None:
    csr = bytearray(x509.load_pem_x509_csr(new_csr(new_key(), Request("jane"))).public_bytes(Encoding.DER))
    csr[-1] ^= 1
    forged = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(csr)) + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(ValueError, match=r".+"):
        authority(tmp_path).sign(forged, ["client auth"], timedelta(days=1), NOW)


def test_unknown_usages_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unrecognized usage values: \\['flying'\\]"):
        authority(tmp_path).sign(new_csr(new_key(), Request("jane")), ["flying"], timedelta(days=1), NOW)


def test_a_new_authority_is_used_once_both_files_are_there(tmp_path: Path) -> None:
    signer = authority(tmp_path)
    first = signer.pair()
    second = new_ca("second", now=NOW)
    (tmp_path / "ca.crt").write_bytes(second.certificate)
    assert signer.pair() == first  # the certificate alone is not a pair
    second.save(tmp_path / "ca.crt", tmp_path / "ca.key")
    assert signer.pair() == second


def test_files_that_are_no_authority_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(ValueError, match="empty holds no certificate"):
        CertificateAuthority(tmp_path / "empty", tmp_path / "empty")


def _certificate(lifetime: timedelta) -> str:
    ca: KeyPair = new_ca("test", now=NOW - timedelta(days=2))
    made = issue(ca, Request("a", usages=(SERVER,), lifetime=lifetime), now=NOW - timedelta(days=1))
    return base64.b64encode(made.certificate).decode()


MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("conditions", "age", "certificate", "gone"),
    [
        ([], DAY - MINUTE, None, False),
        ([], DAY + MINUTE, None, True),
        (["Denied"], HOUR - MINUTE, None, False),
        (["Denied"], HOUR + MINUTE, None, True),
        (["Approved", "Failed"], HOUR + MINUTE, None, True),
        (["Approved"], 9 * DAY, None, False),
        (["Approved"], MINUTE, 30 * DAY, False),
        (["Approved"], HOUR + MINUTE, 30 * DAY, True),
        (["Approved"], MINUTE, HOUR, True),
    ],
)
def test_when_a_request_has_served(conditions: list[str], age: timedelta, certificate: timedelta | None, gone: bool) -> None:
    when = format_time(NOW - age)
    status: Object = {"conditions": [{"type": kind, "status": "True", "lastUpdateTime": when} for kind in conditions]}
    if certificate is not None:
        status["certificate"] = _certificate(certificate)
    assert has_served({"metadata": {"name": "r", "creationTimestamp": when}, "status": status}, NOW) is gone
