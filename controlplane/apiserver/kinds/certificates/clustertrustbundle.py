"""ClusterTrustBundles: certificates of authorities that everybody in the cluster may read."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import NAME, NONE
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_BLOCK = re.compile(r"-----BEGIN ([^-]+)-----\s(.*?)-----END \1-----", re.DOTALL)
_MAX = 1024 * 1024


def _name_problems(name: str) -> list[str]:
    """Each part between colons is a DNS-1123 subdomain."""
    return [problem for part in name.split(":") for problem in names.is_dns1123_subdomain(part)]


class ClusterTrustBundleStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("certificates.k8s.io", "v1beta1", "ClusterTrustBundle"),
        "clustertrustbundles",
        "clustertrustbundle",
        False,
    )
    gates = ("ClusterTrustBundle",)
    columns = (NAME, Column("SignerName", description="The signer that the bundle belongs to."))
    selectable_names = frozenset({"spec.signerName"})
    name_is_valid = staticmethod(_name_problems)

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        signer = spec.get("signerName") or ""
        prefix = signer.replace("/", ":") + ":"
        found: list[FieldError] = []
        if signer and not name.startswith(prefix):
            text = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
            found.append(fieldpath.invalid("metadata.name", name, text))
        elif not signer and ":" in name:
            text = 'ClusterTrustBundle without signer name must not have ":" in its name'
            found.append(fieldpath.invalid("metadata.name", name, text))
        if signer and ("/" not in signer or "." not in signer.partition("/")[0]):
            text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            found.append(fieldpath.invalid("spec.signerName", signer, text))
        return found + _check_bundle(spec.get("trustBundle") or "", "spec.trustBundle")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        held = (old.get("spec") or {}).get("signerName")
        return self.validate(ctx, obj) + checks.immutable(obj["spec"].get("signerName"), held, "spec.signerName")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.signerName": str((obj.get("spec") or {}).get("signerName") or "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], (obj.get("spec") or {}).get("signerName") or NONE]


def _check_bundle(text: str, path: str) -> list[FieldError]:
    if not text:
        return [fieldpath.invalid(path, "<value omitted>", "at least one trust anchor must be provided")]
    if len(text) > _MAX:
        return [fieldpath.too_long(path, _MAX)]
    found: list[FieldError] = []
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        return [fieldpath.invalid(path, "<value omitted>", "at least one trust anchor must be provided")]
    taken: set[bytes] = set()
    for position, block in enumerate(blocks):
        if block[1] != "CERTIFICATE":
            found.append(fieldpath.invalid(path, "<value omitted>", f"entry {position} has bad block type: {block[1]}"))
            continue
        try:
            der = base64.b64decode("".join(block[2].split()), validate=True)
        except (binascii.Error, ValueError):
            der = b""
        if not der.startswith(b"\x30"):  # a sequence, as every certificate begins
            found.append(fieldpath.invalid(path, "<value omitted>", f"entry {position} does not parse as X.509"))
        elif der in taken:
            found.append(fieldpath.invalid(path, "<value omitted>", f"entry {position} is a duplicate of an earlier one"))
        taken.add(der)
    return found
