"""CertificateApproval, CertificateSigning, CertificateSubjectRestriction: who may decide about which signer's certificates.

And ClusterTrustBundleAttest: who may say which authorities stand for a signer.
"""

import base64
import binascii

from controlplane.apiserver.admission.interface import CREATE, UPDATE, Attributes, Object, refuse
from controlplane.apiserver.admission.plugins.base import Validating
from controlplane.apiserver.authorization.interface import Attributes as Question
from controlplane.apiserver.authorization.interface import Authorizer, Decision

_RESOURCE = "certificatesigningrequests.certificates.k8s.io"
_BUNDLES = "clustertrustbundles.certificates.k8s.io"
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_ADMINISTRATORS = "system:masters"


class _ForSigner(Validating):
    """Asks the authorizer for a verb on the request's signer, or on all of its domain."""

    name, verb, words, subresource = "", "", "", ""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != _RESOURCE or attributes.operation != UPDATE:
            return False
        return attributes.subresource == self.subresource and self.concerns(attributes)

    def concerns(self, attributes: Attributes) -> bool:
        return True

    async def validate(self, attributes: Attributes) -> None:
        signer = self._signer(attributes)
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            asked = Question(attributes.user, self.verb, "", True, "certificates.k8s.io", "*", "signers", "", "", name)
            decision, _ = await self._authorizer.authorize(asked)
            if decision is Decision.ALLOW:
                return
        raise refuse(attributes, self._refusal(signer))

    def _signer(self, attributes: Attributes) -> str:
        return str(((attributes.old or attributes.obj or {}).get("spec") or {}).get("signerName") or "")

    def _refusal(self, signer: str) -> str:
        return f'user not permitted to {self.words} requests with signerName "{signer}"'


class CertificateApproval(_ForSigner):
    name, verb, words, subresource = "CertificateApproval", "approve", "approve", "approval"


class CertificateSigning(_ForSigner):
    name, verb, words, subresource = "CertificateSigning", "sign", "sign", "status"

    def concerns(self, attributes: Attributes) -> bool:
        """Only who gives a certificate, or says that it failed, acts as the signer."""
        new, old = (attributes.obj or {}).get("status") or {}, (attributes.old or {}).get("status") or {}
        return bool(new.get("certificate") != old.get("certificate") or new.get("conditions") != old.get("conditions"))


class ClusterTrustBundleAttest(_ForSigner):
    name, verb, words = "ClusterTrustBundleAttest", "attest", "attest"

    def handles(self, attributes: Attributes) -> bool:
        """A bundle that speaks for no signer is anybody's who may write bundles; status and deletion change no authority."""
        if attributes.group_resource != _BUNDLES or attributes.subresource or attributes.operation not in (CREATE, UPDATE):
            return False
        return bool(self._signer(attributes))

    def _signer(self, attributes: Attributes) -> str:
        return str(((attributes.obj or {}).get("spec") or {}).get("signerName") or "")

    def _refusal(self, signer: str) -> str:
        return f'user not permitted to attest for signerName "{signer}"'


class CertificateSubjectRestriction(Validating):
    name = "CertificateSubjectRestriction"

    def handles(self, attributes: Attributes) -> bool:
        if attributes.group_resource != _RESOURCE or attributes.subresource or attributes.operation != CREATE:
            return False
        return bool(((attributes.obj or {}).get("spec") or {}).get("signerName") == _CLIENT_SIGNER)

    async def validate(self, attributes: Attributes) -> None:
        if _ADMINISTRATORS in organizations(attributes.obj or {}):
            raise refuse(attributes, f"use of {_CLIENT_SIGNER} signer with {_ADMINISTRATORS} group is not allowed")


def organizations(request: Object) -> list[str]:
    """The groups that the request's subject asks for."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        pem = base64.b64decode((request.get("spec") or {}).get("request") or "", validate=True)
        subject = x509.load_pem_x509_csr(pem).subject
    except (ValueError, binascii.Error):
        return []  # validation has its own words for that
    return [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
