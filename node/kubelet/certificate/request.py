"""Asking the cluster for a certificate: a CertificateSigningRequest, and waiting for somebody to approve and sign it.

Names, signers and usages are upstream's (``pkg/kubelet/certificate``). Called by ``bootstrap`` and ``rotation``.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from apimachinery import errors
from apimachinery.meta import Object
from apimachinery.resources import CERTIFICATE_SIGNING_REQUESTS
from client.rest import Client
from component import x509
from component.clock import Clock

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
# Elliptic keys encipher nothing, but approvers before v1.27 take requests with exactly these usages; later ones take both.
USAGES = {
    CLIENT_SIGNER: ("digital signature", "key encipherment", "client auth"),
    SERVING_SIGNER: ("digital signature", "key encipherment", "server auth"),
}
NODES_GROUP, NODE_PREFIX = "system:nodes", "system:node:"
WAIT_SECONDS = 15 * 60.0  # for an approval; afterwards a new request is made
_FIRST_LOOK, _SLOWEST_LOOK = 0.25, 5.0


class CertificateRequestError(Exception):
    """No certificate came of a request: it was denied, failed, or nobody answered in time. The text names it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the certificate of a node shall be for."""

    signer: str
    node: str
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()

    @property
    def subject(self) -> x509.Request:
        return x509.Request(NODE_PREFIX + self.node, (NODES_GROUP,), self.dns_names, self.ip_addresses)

    @property
    def usages(self) -> tuple[str, ...]:
        return USAGES[self.signer]


def digested_name(key: bytes, wanted: Wanted) -> str:
    """One name for one key and purpose, so that a kubelet that was killed finds its request again."""
    digest = hashlib.new("sha512_256")
    request = wanted.subject
    for part in (_public_der(key), request.common_name.encode(), *(one.encode() for one in request.organizations)):
        digest.update(_encoded(part) + b"|")
    for usage in wanted.usages:
        digest.update(_encoded(usage.encode()) + b"|")
    return f"node-csr-{_encoded(digest.digest()).decode()}"


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _public_der(key: bytes) -> bytes:
    lines = x509.public_key(key).split(b"\n")
    return base64.b64decode(b"".join(line for line in lines if not line.startswith(b"-----")))


def document(key: bytes, wanted: Wanted, name: str = "") -> Object:
    """The object to create; without a name the server makes one up."""
    request = x509.new_csr(key, wanted.subject)
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": wanted.signer,
        "usages": list(wanted.usages),
    }
    metadata = {"name": name} if name else {"generateName": "csr-"}
    return {
        "apiVersion": CERTIFICATE_SIGNING_REQUESTS.api_version,
        "kind": "CertificateSigningRequest",
        "metadata": metadata,
        "spec": spec,
    }


def issued(request: Object) -> bytes | None:
    """The certificate of a request; None while there is none. Raises CertificateRequestError when there never will be."""
    name = request["metadata"]["name"]
    status = request.get("status") or {}
    approved = False
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Denied", "Failed"):
            how = "is denied" if condition["type"] == "Denied" else "failed"
            why = f'reason: "{condition.get("reason", "")}", message: "{condition.get("message", "")}"'
            raise CertificateRequestError(f"certificate signing request {name} {how}, {why}")
        approved = approved or condition.get("type") == "Approved"
    certificate = status.get("certificate")
    return base64.b64decode(certificate) if approved and certificate else None


async def obtain(client: Client, clock: Clock, key: bytes, wanted: Wanted, *, stable: bool = False) -> bytes:
    """The certificate for a key, PEM. ``stable`` names the request by its key and goes on with one that is there already.

    :raises CertificateRequestError, StatusError, ConnectionError: when nothing came of it.
    """
    name = digested_name(key, wanted) if stable else ""
    try:
        made = await client.create(CERTIFICATE_SIGNING_REQUESTS, document(key, wanted, name))
    except errors.StatusError as error:
        if not stable or error.reason != "AlreadyExists":
            raise
        made = await client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    name = made["metadata"]["name"]
    deadline, pause = clock.monotonic() + WAIT_SECONDS, _FIRST_LOOK
    while (certificate := issued(made)) is None:
        if clock.monotonic() >= deadline:
            raise CertificateRequestError(
                f"certificate request {name} was not signed in time; see kubectl certificate approve {name}"
            )
        await clock.sleep(pause)
        pause = min(pause * 1.5, _SLOWEST_LOOK)
        made = await _again(client, name, made)
    return certificate


async def _again(client: Client, name: str, known: Object) -> Object:
    """The request as it is now; an API server that is away for a moment does not end the waiting."""
    try:
        return await client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    except ConnectionError:
        return known
    except errors.StatusError as error:
        if error.code == 404:
            raise CertificateRequestError(f"certificate request {name} was deleted before it was signed") from None
        if error.code >= 500 or error.code == 429:
            return known
        raise


def names_of(addresses: Sequence[str], node: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """DNS names and IP addresses of a serving certificate: the node's name, and its addresses."""
    return (node,), tuple(address for address in addresses if address)
