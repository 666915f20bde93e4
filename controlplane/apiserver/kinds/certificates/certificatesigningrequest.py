"""CertificateSigningRequests: who asks for a certificate is recorded by the server; approval and issuing are subresources."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.times import format_time
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.kinds.shared.subresource_metadata import take_metadata
from controlplane.apiserver.registry.printing import human_duration
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy, Subresource

CSR = GroupVersionKind("certificates.k8s.io", "v1", "CertificateSigningRequest")
_MIN_SECONDS = 600
_DECISIONS = ("Approved", "Denied")

_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only"),
    *("digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user"),
    *("key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth"),
    *("signing", "timestamping"),
)


class CertificateSigningRequestStrategy(Strategy):
    info = ResourceInfo(CSR, "certificatesigningrequests", "certificatesigningrequest", False, short_names=("csr",))
    columns = (
        NAME,
        AGE,
        Column("SignerName", description="The signer that is asked."),
        Column("Requestor", description="The user who made the request."),
        Column("RequestedDuration", description="How long the certificate shall be valid."),
        Column("Condition", description="What became of the request."),
    )
    has_status = True
    selectable_names = frozenset({"spec.signerName"})
    name_is_valid = staticmethod(names.is_path_segment)  # kubelets name requests by a digest with capital letters

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        """The identity of the requestor is the request's own, whatever the body says."""
        spec, user = obj["spec"], ctx.user
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = _check_request(spec.get("request") or "")
        usages = spec.get("usages") or []
        if not usages:
            found.append(fieldpath.required("spec.usages", "usages must be provided"))
        for position, usage in enumerate(usages):
            if usage not in _USAGES:
                found.append(fieldpath.not_supported(f"spec.usages[{position}]", usage, _USAGES))
            if usage in usages[:position]:
                found.append(fieldpath.duplicate(f"spec.usages[{position}]", usage))
        signer = spec.get("signerName") or ""
        if not signer:
            found.append(fieldpath.required("spec.signerName", "signerName must be provided"))
        elif signer == _LEGACY_SIGNER:
            text = "the legacy signerName is not allowed via this API version"
            found.append(fieldpath.invalid("spec.signerName", signer, text))
        elif "/" not in signer or "." not in signer.partition("/")[0]:
            text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            found.append(fieldpath.invalid("spec.signerName", signer, text))
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_SECONDS:
            text = f"may not specify a duration less than {_MIN_SECONDS} seconds (10 minutes)"
            found.append(fieldpath.invalid("spec.expirationSeconds", seconds, text))
        return found

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        """Approval is left to /approval: the conditions that decide are put back."""
        status = obj.setdefault("status", {})
        kept = _conditions(old, decisions=True) + _conditions(obj, decisions=False)
        if kept:
            status["conditions"] = kept
        else:
            status.pop("conditions", None)
        _stamp(obj, ctx.now)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        held = (old.get("status") or {}).get("certificate")
        if held:
            return checks.immutable((obj.get("status") or {}).get("certificate"), held, "status.certificate")
        return []

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.signerName": str((obj.get("spec") or {}).get("signerName") or "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        return [
            obj["metadata"]["name"],
            age_of(obj, now),
            spec.get("signerName") or NONE,
            spec.get("username") or "",
            human_duration(seconds) if seconds is not None else NONE,
            _condition(obj),
        ]


def _conditions(obj: Mapping[str, Any], *, decisions: bool) -> list[Object]:
    held = (obj.get("status") or {}).get("conditions") or ()
    return [condition for condition in held if (condition.get("type") in _DECISIONS) == decisions]


def _condition(obj: Object) -> str:
    status = obj.get("status") or {}
    held = [str(condition.get("type")) for condition in status.get("conditions") or ()]
    words: list[str] = [word for word in _DECISIONS if word in held][-1:]
    if not words:
        words.append("Pending")
    if "Failed" in held:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _check_request(encoded: str) -> list[FieldError]:
    try:
        pem = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        pem = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem and b"-----BEGIN NEW CERTIFICATE REQUEST-----" not in pem:
        return [fieldpath.invalid("spec.request", encoded, "PEM block type must be CERTIFICATE REQUEST")]
    return []


def _stamp(obj: Object, now: datetime) -> None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastUpdateTime", format_time(now))
        condition.setdefault("lastTransitionTime", format_time(now))


def _approve(ctx: Context, stored: Object, body: Object) -> Object:
    """Of the status only conditions change here: the certificate is the signer's affair."""
    take_metadata(stored, body)
    conditions = (body.get("status") or {}).get("conditions") or []
    stored["status"] = {**(stored.get("status") or {}), "conditions": conditions}
    _stamp(stored, ctx.now)
    return stored


def _validate_approval(ctx: Context, new: Object, old: Object) -> list[FieldError]:
    found: list[FieldError] = []
    conditions = (new.get("status") or {}).get("conditions") or ()
    held = {condition.get("type") for condition in conditions}
    if held >= set(_DECISIONS):
        text = "Approved and Denied conditions are mutually exclusive"
        found.append(fieldpath.invalid("status.conditions", [condition.get("type") for condition in conditions], text))
    for position, condition in enumerate(conditions):
        if not condition.get("type"):
            found.append(fieldpath.required(f"status.conditions[{position}].type"))
        if condition.get("type") in (*_DECISIONS, "Failed") and condition.get("status") != "True":
            found += checks.one_of(condition.get("status"), ("True",), f"status.conditions[{position}].status")
    for condition in _conditions(old, decisions=True):
        if condition.get("type") not in held:
            text = f"updates may not remove a condition of type {condition.get('type')}"
            found.append(fieldpath.forbidden("status.conditions", text))
    return found


CertificateSigningRequestStrategy.subresources = (
    Subresource("approval", CSR, ("get", "patch", "update"), _approve, _validate_approval),
)
