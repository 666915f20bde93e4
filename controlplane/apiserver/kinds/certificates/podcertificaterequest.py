"""PodCertificateRequests: a kubelet's wish for a certificate of a pod. Which signers answer is the cluster's owner's choice."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import condition_status
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_NAMES = ("signerName", "podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID")
_ENDS = ("Issued", "Denied", "Failed")
_LEAST, _MOST = 3600, 91 * 24 * 3600


def _stub(text: str, path: str) -> list[FieldError]:
    """A PKCS#10 request whose signature proves that its sender holds the key. What else it says does not matter."""
    try:
        request = x509.load_der_x509_csr(base64.b64decode(text))
        if not request.is_signature_valid:
            return [fieldpath.invalid(path, "<key>", "signature of the request is not valid")]
        key = request.public_key()
    except (ValueError, binascii.Error, UnsupportedAlgorithm):
        return [fieldpath.invalid(path, "<key>", "must be a DER-serialized PKCS#10 certificate signing request")]
    known = isinstance(key, ed25519.Ed25519PublicKey)
    known = known or (isinstance(key, rsa.RSAPublicKey) and key.key_size in (3072, 4096))
    known = known or (isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in ("secp256r1", "secp384r1", "secp521r1"))
    text = "must be a key of one of RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521, ED25519"
    return [] if known else [fieldpath.invalid(path, "<key>", text)]


class PodCertificateRequestStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("certificates.k8s.io", "v1beta1", "PodCertificateRequest"),
        "podcertificaterequests",
        "podcertificaterequest",
        True,
        short_names=("pcr",),
    )
    gates = ("PodCertificateRequest",)
    columns = (
        NAME,
        Column("PodName", description="The pod that the certificate is for."),
        Column("ServiceAccountName", description="The account that the pod runs as."),
        Column("NodeName", description="The node that the pod runs on."),
        Column("SignerName", description="The signer that is asked."),
        Column("State", description="What became of the request."),
        AGE,
    )
    has_status = True
    selectable_names = frozenset({"spec.signerName", "spec.podName", "spec.nodeName"})

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("maxExpirationSeconds") is None:
            spec["maxExpirationSeconds"] = 86400

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = [fieldpath.required(f"spec.{field}") for field in _NAMES if not spec.get(field)]
        seconds = spec["maxExpirationSeconds"]
        if not _LEAST <= seconds <= _MOST:
            text = f"must be in the range [{_LEAST}, {_MOST}]"
            found.append(fieldpath.invalid("spec.maxExpirationSeconds", seconds, text))
        stub = spec.get("stubPKCS10Request")
        if not stub and not spec.get("pkixPublicKey"):
            found.append(fieldpath.required("spec.stubPKCS10Request"))
        elif stub:
            found += _stub(stub, "spec.stubPKCS10Request")
            both = [field for field in ("pkixPublicKey", "proofOfPossession") if spec.get(field)]
            found += [fieldpath.forbidden(f"spec.{field}", "must not be set beside stubPKCS10Request") for field in both]
        return found

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        status, held = obj.get("status") or {}, old.get("status") or {}
        if any(condition_status(old, end) == "True" for end in _ENDS):
            return checks.immutable(status, held, "status")
        return []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {name: str(spec.get(name.removeprefix("spec.")) or "") for name in self.selectable_names}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        words = [spec.get(field) or "" for field in ("podName", "serviceAccountName", "nodeName", "signerName")]
        state = next((end for end in _ENDS if condition_status(obj, end) == "True"), "Pending")
        return [obj["metadata"]["name"], *words, state, age_of(obj, now)]
