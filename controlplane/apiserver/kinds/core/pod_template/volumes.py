"""Validation of volumes, and of the mounts that use them."""

from collections.abc import Callable, Mapping
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.env import FILE_FIELDS, validate_field_ref, validate_resource_ref
from controlplane.apiserver.kinds.core.pod_template.legacy_volumes import LEGACY
from controlplane.apiserver.kinds.core.pod_template.local_paths import file_path, local_path, no_backstep
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.claims import check_claim_spec

Source = Mapping[str, Any]
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def validate_volumes(volumes: list[dict[str, Any]], path: str) -> tuple[list[FieldError], dict[str, Source]]:
    """What is wrong, and the good volumes by name: mounts of the others are reported too, as upstream does."""
    found: list[FieldError] = []
    good: dict[str, Source] = {}
    for position, volume in enumerate(volumes):
        where = f"{path}[{position}]"
        name = volume.get("name") or ""
        problems = _one_volume(volume, where)
        if not name:
            problems.append(fieldpath.required(f"{where}.name"))
        else:
            problems += checks.each(f"{where}.name", name, names.is_dns1123_label(name))
        if name in good:
            problems.append(fieldpath.duplicate(f"{where}.name", name))
        if problems:
            found += problems
        else:
            good[name] = volume
    return found, good


def _one_volume(volume: Source, path: str) -> list[FieldError]:
    given = [name for name in SOURCES if volume.get(name) is not None]
    if not given:
        return [fieldpath.required(path, "must specify a volume type")]
    found = [fieldpath.forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
    return found + SOURCES[given[0]](volume[given[0]], f"{path}.{given[0]}")


def _mode(source: Source, path: str, field: str = "defaultMode") -> list[FieldError]:
    mode = source.get(field)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [fieldpath.invalid(f"{path}.{field}", mode, _MODE_TEXT)]


def _items(source: Source, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, item in enumerate(source.get("items") or ()):
        where = f"{path}.items[{position}]"
        if not item.get("key"):
            found.append(fieldpath.required(f"{where}.key"))
        if not item.get("path"):
            found.append(fieldpath.required(f"{where}.path"))
        found += file_path(item.get("path") or "", f"{where}.path") + _mode(item, where, "mode")
    return found


def _secret(source: Source, path: str) -> list[FieldError]:
    found = [] if source.get("secretName") else [fieldpath.required(f"{path}.secretName")]
    return found + _mode(source, path) + _items(source, path)


def _config_map(source: Source, path: str) -> list[FieldError]:
    found = [] if source.get("name") else [fieldpath.required(f"{path}.name")]
    return found + _mode(source, path) + _items(source, path)


def _downward(source: Source, path: str) -> list[FieldError]:
    found = _mode(source, path)
    for item in source.get("items") or ():
        found += _downward_file(item, path)
    return found


def _downward_file(item: Source, path: str) -> list[FieldError]:
    """``path`` is that of the volume: upstream does not count its files."""
    found = [] if item.get("path") else [fieldpath.required(f"{path}.path")]
    found += file_path(item.get("path") or "", f"{path}.path") + _mode(item, path, "mode")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        found += validate_field_ref(field, f"{path}.fieldRef", FILE_FIELDS)
        if resource is not None:
            found.append(fieldpath.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    elif resource is not None:
        found += validate_resource_ref(resource, f"{path}.resourceFieldRef", volume=True)
    else:
        found.append(fieldpath.required(path, "one of fieldRef and resourceFieldRef is required"))
    return found


def _projected(source: Source, path: str) -> list[FieldError]:
    found = _mode(source, path)
    taken: set[str] = set()
    for position, part in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{position}]"
        given = [name for name, value in part.items() if value is not None]
        found += [fieldpath.forbidden(f"{where}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
        for name in given[:1]:
            found += _projected_part(name, part[name], f"{where}.{name}", path)
            for written in _paths_written(name, part[name]):
                if written in taken:
                    found.append(fieldpath.invalid(path, written, f"conflicting duplicate paths for {name}"))
                taken.add(written)
    return found


def _projected_part(name: str, part: Source, path: str, volume: str) -> list[FieldError]:
    found: list[FieldError] = []
    if name in ("secret", "configMap"):
        if not part.get("name"):
            found.append(fieldpath.required(f"{path}.name"))
        return found + _items(part, path)
    if name == "downwardAPI":
        for item in part.get("items") or ():
            found += _downward_file(item, path)
    elif name == "serviceAccountToken":
        seconds = part.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            found.append(
                fieldpath.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            )
        elif seconds is not None and seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            found.append(fieldpath.invalid(f"{path}.expirationSeconds", seconds, text))
        if not part.get("path"):
            found.append(fieldpath.required(f"{volume}.path"))
        else:
            found += file_path(part["path"], f"{volume}.path")
    elif name == "podCertificate":
        found += _pod_certificate(part, path)
    elif name == "clusterTrustBundle" and not part.get("path"):
        found.append(fieldpath.required(f"{path}.path"))
    return found


_KEY_TYPES = ("ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096")
_CERTIFICATE_PATHS = ("credentialBundlePath", "keyPath", "certificateChainPath")
_LEAST_LIFE, _MOST_LIFE = 3600, 91 * 24 * 3600


def _pod_certificate(part: Source, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if not part.get("signerName"):
        found.append(fieldpath.required(f"{path}.signerName"))
    if part.get("keyType") not in _KEY_TYPES:
        found.append(fieldpath.not_supported(f"{path}.keyType", part.get("keyType") or "", _KEY_TYPES))
    seconds = part.get("maxExpirationSeconds")
    if seconds is not None and not _LEAST_LIFE <= seconds <= _MOST_LIFE:
        text = f"if provided, maxExpirationSeconds must be >= {_LEAST_LIFE} and <= {_MOST_LIFE}"
        found.append(fieldpath.invalid(f"{path}.maxExpirationSeconds", seconds, text))
    given = [field for field in _CERTIFICATE_PATHS if part.get(field)]
    if not given:
        found.append(fieldpath.required(path, f"specify at least one of {', '.join(_CERTIFICATE_PATHS)}"))
    for field in given:
        found += file_path(part[field], f"{path}.{field}")
    return found


def _paths_written(name: str, part: Source) -> list[str]:
    if name == "serviceAccountToken":
        return [part["path"]] if part.get("path") else []
    if name == "podCertificate":
        return [part[field] for field in _CERTIFICATE_PATHS if part.get(field)]
    return [item["path"] for item in part.get("items") or () if item.get("path")]


def _empty_dir(source: Source, path: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(limit) < quantity.ZERO:
        return [fieldpath.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Source, path: str) -> list[FieldError]:
    text, kind = source.get("path") or "", source.get("type") or ""
    if not text:
        return [fieldpath.required(f"{path}.path")]
    found = no_backstep(text, f"{path}.path")
    if kind not in _HOST_PATH_TYPES:
        found.append(fieldpath.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return found


def _claim(source: Source, path: str) -> list[FieldError]:
    return [] if source.get("claimName") else [fieldpath.required(f"{path}.claimName")]


def _nfs(source: Source, path: str) -> list[FieldError]:
    found = [fieldpath.required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    if not str(source.get("path") or "").startswith("/"):
        found.append(fieldpath.invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))
    return found


def _csi(source: Source, path: str) -> list[FieldError]:
    found = driver_name(source.get("driver") or "", f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        found.append(fieldpath.required(f"{path}.nodePublishSecretRef.name"))
    return found


def driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a CSI driver."""
    found = [] if name else [fieldpath.required(path)]
    if len(name) > 63:
        found.append(fieldpath.too_long(path, 63))
    return found + checks.each(path, name, names.is_dns1123_subdomain(name.lower()))


def _ephemeral(source: Source, path: str) -> list[FieldError]:
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        return [fieldpath.required(where)]
    metadata = template.get("metadata") or {}
    found = checks.labels(metadata.get("labels"), f"{where}.metadata.labels")
    found += checks.annotations(metadata.get("annotations"), f"{where}.metadata.annotations")
    others = [field for field in metadata if field not in ("labels", "annotations") and metadata[field]]
    found += [fieldpath.forbidden(f"{where}.metadata.{field}", "cannot be set") for field in others]
    return found + check_claim_spec(template.get("spec") or {}, f"{where}.spec")


def _image(source: Source, path: str) -> list[FieldError]:
    found = [] if source.get("reference") else [fieldpath.required(f"{path}.reference")]
    policy = source.get("pullPolicy")
    if policy not in (None, "", "Always", "IfNotPresent", "Never"):
        found.append(fieldpath.not_supported(f"{path}.pullPolicy", policy, ("Always", "IfNotPresent", "Never")))
    return found


# In upstream's order: of two sources of one volume, the later one is the one too many.
SOURCES: Mapping[str, Callable[[Source, str], list[FieldError]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": LEGACY["gitRepo"],
    "gcePersistentDisk": LEGACY["gcePersistentDisk"],
    "awsElasticBlockStore": LEGACY["awsElasticBlockStore"],
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": LEGACY["iscsi"],
    "glusterfs": LEGACY["glusterfs"],
    "flocker": LEGACY["flocker"],
    "persistentVolumeClaim": _claim,
    "rbd": LEGACY["rbd"],
    "cinder": LEGACY["cinder"],
    "cephfs": LEGACY["cephfs"],
    "quobyte": LEGACY["quobyte"],
    "downwardAPI": _downward,
    "fc": LEGACY["fc"],
    "flexVolume": LEGACY["flexVolume"],
    "configMap": _config_map,
    "azureFile": LEGACY["azureFile"],
    "vsphereVolume": LEGACY["vsphereVolume"],
    "photonPersistentDisk": LEGACY["photonPersistentDisk"],
    "portworxVolume": LEGACY["portworxVolume"],
    "azureDisk": LEGACY["azureDisk"],
    "storageos": LEGACY["storageos"],
    "projected": _projected,
    "scaleIO": LEGACY["scaleIO"],
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


def validate_mounts(
    container: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]], path: str, *, privileged: bool
) -> list[FieldError]:
    """``volumeMounts`` of a container, against the pod's volumes by name."""
    found: list[FieldError] = []
    points: set[str] = set()
    devices = {one.get("name") or "": one.get("devicePath") or "" for one in container.get("volumeDevices") or ()}
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{position}]"
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        if name not in volumes:
            found.append(fieldpath.not_found(f"{where}.name", name))
        if not point:
            found.append(fieldpath.required(f"{where}.mountPath"))
        if point in points:
            found.append(fieldpath.invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        if name in devices:
            found.append(fieldpath.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if point in devices.values():
            found.append(fieldpath.invalid(f"{where}.mountPath", point, "must not already exist as a path in volumeDevices"))
        if len(mount) > 2:
            found += _mount_options(mount, where, privileged=privileged)
    return found


def _mount_options(mount: Mapping[str, Any], path: str, *, privileged: bool) -> list[FieldError]:
    found: list[FieldError] = []
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        found += local_path(sub_path, f"{path}.subPath")
    if expression:
        if sub_path:
            found.append(fieldpath.invalid(f"{path}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        found += local_path(expression, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in ("Bidirectional", "HostToContainer", "None"):
            found.append(
                fieldpath.not_supported(f"{path}.mountPropagation", propagation, ("Bidirectional", "HostToContainer", "None"))
            )
        elif propagation == "Bidirectional" and not privileged:
            text = "Bidirectional mount propagation is available only to privileged containers"
            found.append(fieldpath.forbidden(f"{path}.mountPropagation", text))
    return found + _recursive_read_only(mount, f"{path}.recursiveReadOnly")


def _recursive_read_only(mount: Mapping[str, Any], path: str) -> list[FieldError]:
    wanted = mount.get("recursiveReadOnly")
    if wanted in (None, "Disabled"):
        return []
    if wanted not in ("IfPossible", "Enabled"):
        return [fieldpath.not_supported(path, wanted, ("Disabled", "Enabled", "IfPossible"))]
    found: list[FieldError] = []
    if not mount.get("readOnly"):
        found.append(fieldpath.forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        found.append(fieldpath.forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return found


def validate_devices(container: Mapping[str, Any], volumes: Mapping[str, Source], path: str) -> list[FieldError]:
    """``volumeDevices`` of a container: claims in block mode."""
    found: list[FieldError] = []
    taken: set[str] = set()
    paths: set[str] = set()
    mounts = {one.get("name") or "": one.get("mountPath") or "" for one in container.get("volumeMounts") or ()}
    for position, device in enumerate(container["volumeDevices"]):
        where = f"{path}.volumeDevices[{position}]"
        name, point = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        if name in taken:
            found.append(fieldpath.invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            found.append(fieldpath.not_found(f"{where}.name", name))
        elif volumes[name].get("persistentVolumeClaim") is None and volumes[name].get("ephemeral") is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(fieldpath.invalid(f"{where}.name", name, text))
        if not point:
            found.append(fieldpath.required(f"{where}.devicePath"))
        if point in paths:
            found.append(fieldpath.invalid(f"{where}.devicePath", point, "must be unique"))
        if point and no_backstep(point, where):
            found.append(fieldpath.invalid(f"{where}.devicePath", point, "can not contain backsteps ('..')"))
        else:
            paths.add(point)
        if name in mounts:
            found.append(fieldpath.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if point in mounts.values():
            found.append(fieldpath.invalid(f"{where}.devicePath", point, "must not already exist as a path in volumeMounts"))
        if name:
            taken.add(name)
    return found
