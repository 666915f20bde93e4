"""Questions about CertificateSigningRequests that the approver, the signers and the cleaner ask. Pure.

What a kubelet's certificates must say is upstream's (``pkg/apis/certificates/helpers.go``), messages included. ``cryptography``
weighs several megabytes, so it is imported when the first request is read.
"""

import base64
import binascii
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import Object

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING_SIGNER = "kubernetes.io/kubelet-serving"
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"

_NODE_GROUP, _NODE_PREFIX = "system:nodes", "system:node:"
_KUBELET_CLIENT_USAGES = frozenset({"digital signature", "client auth"})
_KUBELET_SERVING_USAGES = frozenset({"digital signature", "server auth"})
_WITH_RSA = frozenset({"key encipherment"})  # clients may leave it out, as keys that are not RSA have no use for it


class UnacceptableError(ValueError):
    """A request that its signer will never sign; the message is for its author."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request wants its certificate to say."""

    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()  # common names before the one that counts


def has_condition(request: Object, kind: str) -> bool:
    """Whether a condition of this type is there and true; one without a status counts, as in objects of v1beta1."""
    held = (request.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status", "True") == "True" for each in held)


def is_decided(request: Object) -> bool:
    """Approved or denied: nobody decides twice."""
    return has_condition(request, "Approved") or has_condition(request, "Denied")


def is_to_be_signed(request: Object, signer: str) -> bool:
    """Approved, not failed, no certificate yet, and addressed to this signer."""
    if signer_of(request) != signer or certificate_of(request):
        return False
    return has_condition(request, "Approved") and not has_condition(request, "Denied") and not has_condition(request, "Failed")


def signer_of(request: Object) -> str:
    return str((request.get("spec") or {}).get("signerName") or "")


def usages_of(request: Object) -> list[str]:
    return [str(usage) for usage in (request.get("spec") or {}).get("usages") or ()]


def certificate_of(request: Object) -> bytes:
    """The issued certificate, PEM; empty without one."""
    return base64.b64decode((request.get("status") or {}).get("certificate") or "")


def pem_of(request: Object) -> bytes:
    """The request itself, PEM. Raises ValueError."""
    try:
        return base64.b64decode((request.get("spec") or {}).get("request") or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"the request is not base64: {error}") from None


def subject_of(request: Object) -> Subject:
    """Read the PEM of a request. Raises ValueError when it cannot be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of common names past 64 characters: long node names have them
        parsed = x509.load_pem_x509_csr(pem_of(request))
        common = [str(each.value) for each in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = [str(each.value) for each in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Subject(common[-1] if common else "", tuple(organizations), other_names=tuple(common[:-1]))
    return Subject(
        common[-1] if common else "",
        tuple(organizations),
        tuple(names.get_values_for_type(x509.DNSName)),
        tuple(names.get_values_for_type(x509.RFC822Name)),
        tuple(str(address) for address in names.get_values_for_type(x509.IPAddress)),
        tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        tuple(common[:-1]),
    )


def check(signer: str, subject: Subject, usages: Sequence[str]) -> None:
    """Raises UnacceptableError for what this signer does not sign."""
    if signer == KUBELET_CLIENT_SIGNER:
        check_kubelet_client(subject, usages)
    elif signer == KUBELET_SERVING_SIGNER:
        check_kubelet_serving(subject, usages)
    elif signer == CLIENT_SIGNER:
        _check_client(usages)


def check_kubelet_client(subject: Subject, usages: Sequence[str]) -> None:
    _check_node(subject)
    forbidden = (("DNS", subject.dns_names), ("Email", subject.emails), ("IP", subject.addresses), ("URI", subject.uris))
    for kind, names in forbidden:
        if names:
            raise UnacceptableError(f"{kind} subjectAltNames are not allowed")
    _check_name(subject)
    _check_usages(usages, _KUBELET_CLIENT_USAGES)


def check_kubelet_serving(subject: Subject, usages: Sequence[str]) -> None:
    _check_node(subject)
    if not subject.dns_names and not subject.addresses:
        raise UnacceptableError("DNS or IP subjectAltName is required")
    for kind, names in (("Email", subject.emails), ("URI", subject.uris)):
        if names:
            raise UnacceptableError(f"{kind} subjectAltNames are not allowed")
    _check_usages(usages, _KUBELET_SERVING_USAGES)
    _check_name(subject)


def _check_node(subject: Subject) -> None:
    if subject.organizations != (_NODE_GROUP,):
        raise UnacceptableError("subject organization is not system:nodes")


def _check_name(subject: Subject) -> None:
    if not subject.common_name.startswith(_NODE_PREFIX):
        raise UnacceptableError("subject common name does not begin with 'system:node:'")
    if subject.other_names:  # not everybody reads the last one
        raise UnacceptableError("subject has more than one common name")


def _check_usages(usages: Sequence[str], required: Collection[str]) -> None:
    given = frozenset(usages)
    if given not in (frozenset(required), frozenset(required) | _WITH_RSA):
        raise UnacceptableError(f"usages did not match [{' '.join(sorted(frozenset(required) | _WITH_RSA))}]")


def _check_client(usages: Sequence[str]) -> None:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            raise UnacceptableError(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise UnacceptableError("missing required usage for client certificate: client auth")


def with_condition(request: Object, condition: Mapping[str, Any]) -> Object:
    """A copy of the request with one more condition."""
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), dict(condition)]}}
