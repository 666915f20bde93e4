"""Certificates of pods: asked for, renewed when the signer says so, and what a pod is told while it has none."""

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apimachinery import errors
from apimachinery.times import format_time
from component.clock import FakeClock
from component.x509 import Request, issue, new_ca
from node.kubelet.interface import VolumeError
from node.kubelet.volumes.pod_certificates import Bundle, PodCertificates, clean_chain
from tests.support.pod_workers import pod

SOURCE = {"signerName": "example.test/signer", "keyType": "ECDSAP256", "credentialBundlePath": "bundle.pem"}


class Api:
    """Requests as dicts; ``verdict`` is what the signer says to new ones."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.made: dict[str, dict[str, Any]] = {}
        self.verdict: dict[str, Any] | None = None

    async def service_account(self, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": "account-uid"}}

    async def create_certificate_request(self, namespace: str, body: Any) -> dict[str, Any]:
        name = f"req-{len(self.made)}"
        self.made[name] = {**body, "metadata": {**body["metadata"], "name": name}, "status": self.verdict or {}}
        return self.made[name]

    async def certificate_request(self, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.made:
            raise errors.not_found("podcertificaterequests", name)
        return self.made[name]

    def issued(self, chain: str = "", life: float = 3600) -> dict[str, Any]:
        now = self.clock.now()
        return {
            "conditions": [{"type": "Issued", "status": "True"}],
            "certificateChain": chain or issue(new_ca("ca"), Request("leaf")).certificate.decode(),
            "beginRefreshAt": format_time(now + timedelta(seconds=life / 2)),
            "notAfter": format_time(now + timedelta(seconds=life)),
        }


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = Api(self.clock)
        self.events: list[tuple[str, str]] = []
        node = {"metadata": {"name": "node-1", "uid": "node-uid"}}

        def warn(pod: Any, reason: str, note: str) -> None:
            self.events.append((reason, note))

        self.certificates = PodCertificates(self.api, self.clock, lambda: node, warn, jitter=lambda: 0)
        self.pod = pod(serviceAccountName="app")

    async def get(self, **changes: Any) -> Bundle:
        asking = asyncio.ensure_future(self.certificates.bundle(self.pod, "v", 0, {**SOURCE, **changes}))
        while not asking.done():
            await asyncio.sleep(0.001)  # keys are made in a thread
            if (due := self.clock.next_due()) is not None:
                await self.clock.advance(due - self.clock.monotonic())
        return await asking


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("ECDSAP256", ec.EllipticCurvePublicKey),
        ("ECDSAP521", ec.EllipticCurvePublicKey),
        ("ED25519", ed25519.Ed25519PublicKey),
        ("RSA3072", rsa.RSAPublicKey),
    ],
)
async def test_a_pod_gets_a_key_of_its_own_and_what_the_signer_issues(kind: str, wanted: type) -> None:
    world = World()
    world.api.verdict = world.api.issued()
    bundle = await world.get(keyType=kind, maxExpirationSeconds=7200, userAnnotations={"a/b": "c"})
    (request,) = world.api.made.values()
    spec = request["spec"]
    csr = x509.load_der_x509_csr(base64.b64decode(spec["stubPKCS10Request"]))
    assert csr.is_signature_valid
    assert isinstance(csr.public_key(), wanted)
    assert len(csr.subject) == 0
    key = serialization.load_pem_private_key(bundle.key, None)
    encoding = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*encoding) == csr.public_key().public_bytes(*encoding)
    assert bundle.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert bundle.chain.decode() == world.api.verdict["certificateChain"]
    assert (spec["serviceAccountName"], spec["serviceAccountUID"], spec["nodeUID"]) == ("app", "account-uid", "node-uid")
    assert (spec["maxExpirationSeconds"], spec["unverifiedUserAnnotations"]) == (7200, {"a/b": "c"})
    assert await world.get(keyType=kind) == bundle
    assert len(world.api.made) == 1


async def test_until_it_is_issued_the_pod_waits() -> None:
    world = World()
    for _ in range(3):
        with pytest.raises(VolumeError, match="credential bundle is not issued yet"):
            await world.get()
    (request,) = world.api.made.values()
    request["status"] = world.api.issued()
    assert (await world.get()).chain


async def test_a_certificate_is_renewed_when_the_signer_says_so() -> None:
    world = World()
    world.api.verdict = world.api.issued(life=3600)
    first = await world.get()
    await world.clock.advance(1799)
    assert await world.get() == first
    world.api.verdict = None
    await world.clock.advance(2)
    assert await world.get() == first, "the old one stays until the answer"
    assert len(world.api.made) == 2
    world.api.made["req-1"]["status"] = world.api.issued()
    second = await world.get()
    assert second.key != first.key
    assert not world.events


async def test_what_cannot_be_renewed_is_said_once() -> None:
    world = World()
    world.api.verdict = world.api.issued(life=3600)
    first = await world.get()
    world.api.verdict = None
    await world.clock.advance(7200)
    assert await world.get() == first
    assert await world.get() == first
    assert [reason for reason, _ in world.events] == ["CertificateOverdueForRefresh", "CertificateExpired"]


@pytest.mark.parametrize(("kind", "verb", "was"), [("Denied", "denied", "was denied"), ("Failed", "failed", "failed")])
async def test_a_refusal_is_for_good(kind: str, verb: str, was: str) -> None:
    world = World()
    world.api.verdict = {"conditions": [{"type": kind, "status": "True", "reason": "No", "message": "never"}]}
    for _ in range(2):
        with pytest.raises(VolumeError, match=f'PodCertificateRequest was permanently {verb}: reason="No" message="never"'):
            await world.get()
    assert len(world.api.made) == 1
    ((reason, note),) = world.events
    assert reason == kind
    assert note == f'PodCertificateRequest default/req-0 {was}, reason="No", message="never"'


async def test_a_request_that_somebody_deleted_is_made_again() -> None:
    world = World()
    with pytest.raises(VolumeError):
        await world.get()
    world.api.made["other"] = world.api.made.pop("req-0")
    await world.clock.advance(500)
    with pytest.raises(errors.StatusError):
        await world.get()
    await world.clock.advance(120)
    with pytest.raises(VolumeError):
        await world.get()
    world.api.verdict = world.api.issued()
    await world.get()


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    world = World()
    world.api.verdict = world.api.issued()
    first = await world.get()
    world.certificates.forget(world.pod["metadata"]["uid"])
    assert (await world.get()).key != first.key


def test_only_certificates_are_left_of_a_chain() -> None:
    body = "QUJD\n"
    block = f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"
    noisy = f"hello\n-----BEGIN CERTIFICATE-----\nA: b\n\n{body}-----END CERTIFICATE-----\nthere\n{block}"
    assert clean_chain(noisy).decode() == block + block
