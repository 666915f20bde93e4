"""Defaults of volumes in a pod spec."""

from typing import Any

from controlplane.apiserver.kinds.core.pod_template.images import image_tag
from controlplane.apiserver.kinds.shared.amounts import canonical_amount

Object = dict[str, Any]

FILE_MODE = 0o644


def default_volume(volume: Object) -> None:
    """One entry of ``spec.volumes``; without any source it is an emptyDir."""
    for source, apply in _SOURCES:
        value = volume.get(source)
        if value is not None:
            apply(value)
            return
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}


def _file_mode(source: Object) -> None:
    if source.get("defaultMode") is None:
        source["defaultMode"] = FILE_MODE


def _downward(source: Object) -> None:
    _file_mode(source)
    _downward_items(source)


def _downward_items(source: Object) -> None:
    for item in source.get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        resource = item.get("resourceFieldRef")
        if resource is not None:
            resource["divisor"] = canonical_amount(resource.get("divisor") or "0")


def _projected(source: Object) -> None:
    _file_mode(source)
    for part in source.get("sources") or ():
        token = part.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
        if part.get("downwardAPI"):
            _downward_items(part["downwardAPI"])


def _empty_dir(source: Object) -> None:
    if source.get("sizeLimit") is not None:
        source["sizeLimit"] = canonical_amount(source["sizeLimit"])


def _host_path(source: Object) -> None:
    if source.get("type") is None:
        source["type"] = ""


def _image(source: Object) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = "Always" if image_tag(str(source.get("reference") or "")) == "latest" else "IfNotPresent"


def _ephemeral(source: Object) -> None:
    spec = (source.get("volumeClaimTemplate") or {}).get("spec")
    if spec is not None and not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"


def _iscsi(source: Object) -> None:
    if not source.get("iscsiInterface"):
        source["iscsiInterface"] = "default"


def _azure_disk(source: Object) -> None:
    _fill(source, cachingMode="ReadWrite", kind="Shared", fsType="ext4", readOnly=False)


def _rbd(source: Object) -> None:
    _fill(source, pool="rbd", user="admin", keyring="/etc/ceph/keyring")


def _scale_io(source: Object) -> None:
    _fill(source, storageMode="ThinProvisioned", fsType="xfs")


def _fill(source: Object, **values: Any) -> None:
    for field, value in values.items():
        if source.get(field) in (None, ""):
            source[field] = value


def _nothing(source: Object) -> None: ...


_SOURCES = (
    ("configMap", _file_mode),
    ("projected", _projected),
    ("secret", _file_mode),
    ("emptyDir", _empty_dir),
    ("downwardAPI", _downward),
    ("hostPath", _host_path),
    ("persistentVolumeClaim", _nothing),
    ("image", _image),
    ("ephemeral", _ephemeral),
    ("iscsi", _iscsi),
    ("azureDisk", _azure_disk),
    ("rbd", _rbd),
    ("scaleIO", _scale_io),
)
