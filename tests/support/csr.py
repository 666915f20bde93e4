"""Certificate signing requests as clients send them."""

import base64
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from component.x509 import Request, new_csr, new_key

Object = dict[str, Any]


def request_for(*organizations: str) -> Object:
    """Metadata and spec of a request for a client certificate with these groups."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(names))
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    pem = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    return {"metadata": {"name": "r"}, "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": pem}}


def signing_request(
    common_name: str,
    organizations: Sequence[str] = (),
    *,
    signer: str,
    usages: Sequence[str],
    dns: Sequence[str] = (),
    seconds: int | None = None,
    name: str = "r",
) -> tuple[Object, bytes]:
    """A whole CertificateSigningRequest as kubelets and people send it, and the key (PEM) it was made with."""
    key = new_key()
    pem = new_csr(key, Request(common_name, organizations, dns_names=dns))
    spec: Object = {"signerName": signer, "usages": list(usages), "request": base64.b64encode(pem).decode()}
    if seconds is not None:
        spec["expirationSeconds"] = seconds
    made = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": spec}
    return made, key
