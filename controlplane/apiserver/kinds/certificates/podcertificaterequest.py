"""PodCertificateRequests: a kubelet's wish for a certificate of a pod. No signer of ours answers them yet."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

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
        if not spec.get("stubPKCS10Request") and not spec.get("pkixPublicKey"):
            found.append(fieldpath.required("spec.stubPKCS10Request"))
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
