"""When a certificate is renewed, by virtual time, and what a request for one looks like."""

import random
from datetime import timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from component import x509
from component.clock import FakeClock
from component.x509 import CLIENT, SERVER, KeyPair, Request
from node.kubelet.certificate.request import (
    CLIENT_SIGNER,
    SERVING_SIGNER,
    CertificateRequestError,
    Wanted,
    digested_name,
    document,
    issued,
)
from node.kubelet.certificate.rotation import Rotation, deadline, says
from node.kubelet.certificate.store import CertificateStore

CA = x509.new_ca("ca")
WANTED = Wanted(CLIENT_SIGNER, "node-1")


class Signer:
    """Signs at once, for as long as told, unless it is told to refuse."""

    def __init__(self, clock: FakeClock, lifetime: timedelta = timedelta(hours=10)) -> None:
        self.clock, self.lifetime, self.refuses, self.asked = clock, lifetime, 0, 0

    async def __call__(self, key: bytes, wanted: Wanted) -> bytes:
        self.asked += 1
        if self.refuses:
            self.refuses -= 1
            raise CertificateRequestError("certificate signing request csr-1 is denied")
        csr = x509.new_csr(key, wanted.subject)
        return x509.sign_csr(CA, csr, usages=(CLIENT,), lifetime=self.lifetime, now=self.clock.now())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def signer(clock: FakeClock) -> Signer:
    return Signer(clock)


@pytest.fixture
def rotation(clock: FakeClock, signer: Signer, tmp_path: Path) -> Rotation:
    return Rotation(CertificateStore(tmp_path, "kubelet-client"), lambda: WANTED, signer, clock, random.Random(1))


@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=10_000))
def test_the_deadline_is_between_70_and_90_percent_of_life(seed: int, hours: int) -> None:
    start = FakeClock().now()
    certificate = x509.parse(ISSUED.certificate)
    from dataclasses import replace

    certificate = replace(certificate, not_before=start, not_after=start + timedelta(hours=hours))
    share = (deadline(certificate, random.Random(seed)) - start) / timedelta(hours=hours)
    assert 0.7 <= share <= 0.9


ISSUED: KeyPair = x509.issue(CA, Request("system:node:node-1", ("system:nodes",), usages=(CLIENT,)))


async def test_a_missing_certificate_is_asked_for_at_once(rotation: Rotation, signer: Signer) -> None:
    assert not rotation.available.is_set()
    await rotation.step()
    assert rotation.available.is_set()
    assert signer.asked == 1
    await rotation.step()
    assert signer.asked == 1


async def test_one_request_for_each_life(rotation: Rotation, signer: Signer, clock: FakeClock) -> None:
    """Over 100 hours of certificates of ten hours: a renewal each seven to nine hours, and never an expired one."""
    for _ in range(100 * 12):
        await rotation.step()
        assert rotation.expires is not None
        assert rotation.expires > clock.now() + timedelta(minutes=50)
        await clock.advance(300)
    assert 100 / 9 - 1 <= signer.asked <= 100 / 7 + 2


async def test_after_a_failure_the_old_one_stays_and_it_asks_again(rotation: Rotation, signer: Signer, clock: FakeClock) -> None:
    await rotation.step()
    first = rotation.expires
    await clock.advance(9.1 * 3600)
    signer.refuses = 2
    assert await rotation.step() is None
    assert await rotation.step() is None
    assert (rotation.failures, rotation.expires) == (2, first)
    assert await rotation.step() is not None
    assert rotation.expires is not None
    assert first is not None
    assert rotation.expires > first


async def test_another_address_is_a_reason_to_ask(clock: FakeClock, signer: Signer, tmp_path: Path) -> None:
    wanted = [Wanted(SERVING_SIGNER, "node-1", ("node-1",), ("192.0.2.1",))]
    rotation = Rotation(CertificateStore(tmp_path, "kubelet-server"), lambda: wanted[0], signer, clock)
    await rotation.step()
    await rotation.step()
    assert signer.asked == 1
    wanted[0] = Wanted(SERVING_SIGNER, "node-1", ("node-1",), ("192.0.2.2",))
    await rotation.step()
    assert signer.asked == 2
    current = CertificateStore(tmp_path, "kubelet-server").current()
    assert current is not None
    assert says(x509.parse(current.certificate), wanted[0])


def test_one_key_and_purpose_has_one_name() -> None:
    one, other = x509.new_key(), x509.new_key()
    name = digested_name(one, WANTED)
    assert name == digested_name(one, WANTED)
    assert name.startswith("node-csr-")
    assert len(name) == len("node-csr-") + 43
    assert name not in (digested_name(other, WANTED), digested_name(one, Wanted(SERVING_SIGNER, "node-1")))
    assert name != digested_name(one, Wanted(CLIENT_SIGNER, "node-2"))


def test_a_request_is_what_the_approver_takes() -> None:
    made = document(x509.new_key(), WANTED, "node-csr-x")
    assert made["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert made["spec"]["usages"] == ["digital signature", "key encipherment", "client auth"]
    serving = document(x509.new_key(), Wanted(SERVING_SIGNER, "node-1", ("node-1",), ("192.0.2.1",)))
    assert serving["spec"]["usages"] == ["digital signature", "key encipherment", "server auth"]
    assert serving["metadata"] == {"generateName": "csr-"}
    assert SERVER


def test_a_denial_and_a_failure_end_the_waiting() -> None:
    def request(kind: str) -> dict[str, object]:
        condition = {"type": kind, "reason": "Because", "message": "no"}
        return {"metadata": {"name": "csr-1"}, "status": {"conditions": [condition], "certificate": "Y2VydA=="}}

    assert issued(request("Approved")) == b"cert"
    assert issued({"metadata": {"name": "csr-1"}}) is None
    with pytest.raises(CertificateRequestError, match='csr-1 is denied, reason: "Because", message: "no"'):
        issued(request("Denied"))
    with pytest.raises(CertificateRequestError, match="csr-1 failed"):
        issued(request("Failed"))
