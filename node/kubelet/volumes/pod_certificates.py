"""podCertificate: a key made here for one pod, and a certificate that a signer of the cluster issues for it. For ``projected``.

For each such source a PodCertificateRequest is made; until it is issued, the pod waits for its volume. When the signer says that
it is time (``beginRefreshAt``), a new key and request follow, and what is in the volume stays until the answer. Keys live in
memory and in the volume alone: after a restart of the kubelet every pod gets new ones. States and messages are upstream's
(pkg/kubelet/podcertificate).
"""

import asyncio
import base64
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apimachinery.errors import StatusError
from apimachinery.meta import condition_status, get_condition, name_of, namespace_of, uid_of
from apimachinery.times import parse_time
from component.clock import Clock
from node.kubelet.interface import Pod, VolumeError

_ABANDONED = timedelta(minutes=10)
_OVERDUE = timedelta(minutes=10)
_JITTER = 60.0
_SOON, _LOOKS = 0.1, 20  # how a new request is looked after, before the pod's own back-off does it
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*(.*?)-----END \1-----", re.DOTALL)

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class Requests(Protocol):
    """The API, as far as it is needed here. All raise StatusError."""

    async def service_account(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    async def create_certificate_request(self, namespace: str, body: Mapping[str, Any]) -> Mapping[str, Any]: ...

    async def certificate_request(self, namespace: str, name: str) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Bundle:
    """Key and certificates, PEM."""

    key: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request that has been made, with the key that it is for."""

    key: bytes = field(repr=False)
    name: str
    abandon_at: datetime


@dataclass(frozen=True, slots=True)
class _State:
    """Of one source of one volume. ``refused`` is for good."""

    pending: _Pending | None = None
    bundle: Bundle | None = field(default=None, repr=False)
    begin_refresh: datetime | None = None
    not_after: datetime | None = None
    refused: str = ""
    told: frozenset[str] = frozenset()


class PodCertificates:
    """One per kubelet. ``node`` is this node's object, ``warn(pod, reason, note)`` writes an event."""

    def __init__(
        self,
        requests: Requests,
        clock: Clock,
        node: Callable[[], Mapping[str, Any] | None],
        warn: Callable[[Pod, str, str], object],
        jitter: Callable[[], float] = lambda: random.uniform(0, _JITTER),  # noqa: S311 - spreads load
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._node = node
        self._warn = warn
        self._jitter = jitter
        self._states: dict[tuple[str, str, int], _State] = {}
        self._busy: dict[tuple[str, str, int], asyncio.Lock] = {}

    async def bundle(self, pod: Pod, volume: str, index: int, source: Mapping[str, Any]) -> Bundle:
        """What belongs into the volume now. Raises VolumeError while there is nothing yet, or never will be; StatusError."""
        at = (uid_of(pod), volume, index)
        async with self._busy.setdefault(at, asyncio.Lock()):
            state = self._states.get(at, _State())
            if not state.refused:
                try:
                    state = await self._advance(pod, source, state)
                except (StatusError, VolumeError):
                    if state.bundle is None:
                        raise
                self._states[at] = state
        if state.refused:
            raise VolumeError(state.refused)
        if state.bundle is None:
            raise VolumeError("credential bundle is not issued yet")
        return state.bundle

    def forget(self, uid: str) -> None:
        for at in [at for at in self._busy if at[0] == uid]:
            self._states.pop(at, None)
            del self._busy[at]

    async def _advance(self, pod: Pod, source: Mapping[str, Any], state: _State) -> _State:
        now = self._clock.now()
        if state.pending is None:
            if state.bundle is not None and state.begin_refresh is not None and now < state.begin_refresh:
                return state
            state = self._complain(pod, state, now)
            state = replace(state, pending=await self._ask(pod, source))
            return await self._look_soon(pod, state)
        return await self._look(pod, state)

    async def _look_soon(self, pod: Pod, state: _State) -> _State:
        """Most signers answer at once: a pod need not wait for its next turn."""
        for _ in range(_LOOKS if state.bundle is None else 1):
            state = await self._look(pod, state)
            if state.pending is None:
                break
            await self._clock.sleep(_SOON)
        return state

    def _complain(self, pod: Pod, state: _State, now: datetime) -> _State:
        """Once each: a certificate that should have been renewed, and one that has ended."""
        told = set(state.told)
        if state.begin_refresh is not None and now > state.begin_refresh + _OVERDUE and "overdue" not in told:
            self._warn(pod, "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
            told.add("overdue")
        if state.not_after is not None and now > state.not_after and "expired" not in told:
            self._warn(pod, "CertificateExpired", "PodCertificate expired")
            told.add("expired")
        return replace(state, told=frozenset(told))

    async def _ask(self, pod: Pod, source: Mapping[str, Any]) -> _Pending:
        node = self._node()
        if node is None:
            raise VolumeError("this node's object is not known yet")
        namespace, account = namespace_of(pod), str(pod["spec"].get("serviceAccountName") or "default")
        service_account = await self._requests.service_account(namespace, account)
        key, request = await asyncio.to_thread(_key_and_request, str(source.get("keyType") or ""))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        spec = {
            "signerName": source["signerName"],
            "podName": name_of(pod),
            "podUID": uid_of(pod),
            "serviceAccountName": account,
            "serviceAccountUID": uid_of(service_account),
            "nodeName": name_of(node),
            "nodeUID": uid_of(node),
            "stubPKCS10Request": base64.b64encode(request).decode(),
        }
        if source.get("maxExpirationSeconds") is not None:
            spec["maxExpirationSeconds"] = int(source["maxExpirationSeconds"])
        if source.get("userAnnotations"):
            spec["unverifiedUserAnnotations"] = dict(source["userAnnotations"])
        metadata = {"generateName": "req-", "namespace": namespace, "ownerReferences": [owner]}
        head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest"}
        made = await self._requests.create_certificate_request(namespace, {**head, "metadata": metadata, "spec": spec})
        return _Pending(key, name_of(made), self._clock.now() + _ABANDONED)

    async def _look(self, pod: Pod, state: _State) -> _State:
        """What became of the request."""
        pending, namespace = state.pending, namespace_of(pod)
        assert pending is not None
        try:
            found = await self._requests.certificate_request(namespace, pending.name)
        except StatusError as error:
            if error.code == 404 and self._clock.now() > pending.abandon_at:
                return replace(state, pending=None)  # somebody has deleted it
            raise
        for kind, verb in (("Denied", "denied"), ("Failed", "failed")):
            condition = get_condition(found, kind)
            if condition is not None and condition.get("status", "True") == "True":
                why = f'reason="{condition.get("reason") or ""}", message="{condition.get("message") or ""}"'
                was = "was denied" if kind == "Denied" else "failed"
                self._warn(pod, kind, f"PodCertificateRequest {namespace}/{pending.name} {was}, {why}")
                return _State(refused=f"PodCertificateRequest was permanently {verb}: {why.replace(',', '')}")
        if condition_status(found, "Issued") != "True":
            return state
        status = found.get("status") or {}
        begin = parse_time(status["beginRefreshAt"]) + timedelta(seconds=self._jitter())
        chain = clean_chain(str(status.get("certificateChain") or ""))
        return _State(bundle=Bundle(pending.key, chain), begin_refresh=begin, not_after=parse_time(status["notAfter"]))


def clean_chain(text: str) -> bytes:
    """The certificates of a PEM text alone, without what stands between and inside of the blocks. Pure."""
    blocks = []
    for _, body in _BLOCK.findall(text):
        lines = [line.strip() for line in body.splitlines() if line.strip() and ":" not in line]
        blocks.append("\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]))
    return "".join(blocks).encode()


_CURVES: Mapping[str, ec.EllipticCurve] = {
    "ECDSAP256": ec.SECP256R1(),
    "ECDSAP384": ec.SECP384R1(),
    "ECDSAP521": ec.SECP521R1(),
}


def _new_key(kind: str) -> Key:
    if kind in _CURVES:
        return ec.generate_private_key(_CURVES[kind])
    if kind == "ED25519":
        return ed25519.Ed25519PrivateKey.generate()
    if kind in ("RSA3072", "RSA4096"):
        return rsa.generate_private_key(public_exponent=65537, key_size=int(kind.removeprefix("RSA")))
    raise VolumeError(f'unknown key type "{kind}"')


def _key_and_request(kind: str) -> tuple[bytes, bytes]:
    """(PKCS#8 key in PEM, a PKCS#10 request in DER that says nothing but the public key). Blocks: RSA takes its time."""
    key = _new_key(kind)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return pem, request.public_bytes(serialization.Encoding.DER)
