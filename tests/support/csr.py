"""Certificate signing requests as clients send them."""

import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
