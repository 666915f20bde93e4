"""Validation of the volume sources that drivers outside Kubernetes serve by now. Served, stored and checked as ever.

Called through ``volumes.SOURCES``; rules and texts are those of upstream's ``validate*VolumeSource`` functions.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.local_paths import local_path
from controlplane.apiserver.kinds.shared import checks

Source = Mapping[str, Any]

_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9-.]+)(:[^,;*&$|\s]+)")
_EUI = re.compile(r"eui\.[A-Za-z0-9]{16}")
_NAA = re.compile(r"naa\.[A-Za-z0-9]{32}")
_MANAGED_DISK = ("/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",)
_BLOB_DISK = ("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",)


def _needs(*fields: str) -> Callable[[Source, str], list[FieldError]]:
    """A check that only asks for some fields to be there."""

    def check(source: Source, path: str) -> list[FieldError]:
        return [fieldpath.required(f"{path}.{field}") for field in fields if not source.get(field)]

    return check


def _disk_of(field: str) -> Callable[[Source, str], list[FieldError]]:
    """A disk of a cloud, and perhaps one partition of it."""

    def check(source: Source, path: str) -> list[FieldError]:
        found = _needs(field)(source, path)
        partition = source.get("partition") or 0
        if not 0 <= partition <= 255:
            text = names.range_error(1, 255)  # upstream's words; zero is the whole disk
            found.append(fieldpath.invalid(f"{path}.partition", partition, text))
        return found

    return check


def _with_secret(*fields: str) -> Callable[[Source, str], list[FieldError]]:
    """Some fields, and a secret that has a name."""

    def check(source: Source, path: str) -> list[FieldError]:
        found = _needs(*fields)(source, path)
        secret = source.get("secretRef")
        if secret is not None and not secret.get("name"):
            found.append(fieldpath.required(f"{path}.secretRef.name"))
        return found

    return check


def _git_repo(source: Source, path: str) -> list[FieldError]:
    return _needs("repository")(source, path) + local_path(source.get("directory") or "", f"{path}.directory")


def _initiator(name: str, path: str) -> list[FieldError]:
    for prefix, pattern in (("iqn", _IQN), ("eui", _EUI), ("naa", _NAA)):
        if name.startswith(prefix):
            return [] if pattern.fullmatch(name) else [fieldpath.invalid(path, name, "must be valid format")]
    return [fieldpath.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]


def _iscsi(source: Source, path: str) -> list[FieldError]:
    found = _needs("targetPortal", "iqn")(source, path)
    if source.get("iqn"):
        found += _initiator(source["iqn"], f"{path}.iqn")
    lun = source.get("lun") or 0
    if not 0 <= lun <= 255:
        found.append(fieldpath.invalid(f"{path}.lun", lun, names.range_error(0, 255)))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        found.append(fieldpath.required(f"{path}.secretRef"))
    if source.get("initiatorName") is not None:
        found += _initiator(source["initiatorName"], f"{path}.initiatorname")
    return found


def _fibre_channel(source: Source, path: str) -> list[FieldError]:
    names_given, ids_given = source.get("targetWWNs") or [], source.get("wwids") or []
    where = f"{path}.targetWWNs"
    found: list[FieldError] = []
    if not names_given and not ids_given:
        found.append(fieldpath.required(where, "must specify either targetWWNs or wwids, but not both"))
    if names_given and ids_given:
        found.append(fieldpath.invalid(where, names_given, "targetWWNs and wwids can not be specified simultaneously"))
    lun = source.get("lun")
    if names_given and lun is None:
        found.append(fieldpath.required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif names_given and lun is not None and not 0 <= lun <= 255:
        found.append(fieldpath.invalid(f"{path}.lun", lun, names.range_error(0, 255)))
    return found


def _flocker(source: Source, path: str) -> list[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    found: list[FieldError] = []
    if not name and not uid:
        found.append(fieldpath.required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        found.append(fieldpath.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        found.append(fieldpath.invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return found


def _quobyte(source: Source, path: str) -> list[FieldError]:
    pairs = "must be a host:port pair or multiple pairs separated by commas"
    registry = source.get("registry") or ""
    found: list[FieldError] = []
    if not registry:
        found.append(fieldpath.required(f"{path}.registry", pairs))
    elif len(source.get("tenant") or "") > 64:
        found.append(fieldpath.required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        wrong = [one for one in registry.split(",") if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", one)]
        found += [fieldpath.invalid(f"{path}.registry", registry, pairs) for _ in wrong]
    return found + _needs("volume")(source, path)


def _flex(source: Source, path: str) -> list[FieldError]:
    found = _needs("driver")(source, path)
    for key in source.get("options") or {}:
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            found.append(fieldpath.invalid(f"{path}.options[{key}]", key, text))
    return found


def _azure_disk(source: Source, path: str) -> list[FieldError]:
    found = _needs("diskName", "diskURI")(source, path)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI") or ""
    if caching is not None and caching not in ("None", "ReadOnly", "ReadWrite"):
        found.append(fieldpath.not_supported(f"{path}.cachingMode", caching, ("None", "ReadOnly", "ReadWrite")))
    if kind is not None and kind not in ("Dedicated", "Managed", "Shared"):
        found.append(fieldpath.not_supported(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared")))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        found.append(fieldpath.not_supported(f"{path}.diskURI", uri, _MANAGED_DISK))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        found.append(fieldpath.not_supported(f"{path}.diskURI", uri, _BLOB_DISK))
    return found


def _storageos(source: Source, path: str) -> list[FieldError]:
    found = _with_secret("volumeName")(source, path)
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            found += checks.each(f"{path}.{field}", source[field], names.is_dns1123_label(source[field]))
    return found


LEGACY: Mapping[str, Callable[[Source, str], list[FieldError]]] = {
    "awsElasticBlockStore": _disk_of("volumeID"),
    "azureDisk": _azure_disk,
    "azureFile": _needs("secretName", "shareName"),
    "cephfs": _needs("monitors"),
    "cinder": _with_secret("volumeID"),
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": _disk_of("pdName"),
    "gitRepo": _git_repo,
    "glusterfs": _needs("endpoints", "path"),
    "iscsi": _iscsi,
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "quobyte": _quobyte,
    "rbd": _needs("monitors", "image"),
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "storageos": _storageos,
    "vsphereVolume": _needs("volumePath"),
}
