"""Validation of volumes, and of the mounts that use them."""

from collections.abc import Callable, Mapping
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.env import FILE_FIELDS, validate_field_ref, validate_resource_ref
from controlplane.apiserver.kinds.shared import checks

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
    given = [name for name, value in volume.items() if name != "name" and value is not None]
    if not given:
        return [fieldpath.required(path, "must specify a volume type")]
    found = [fieldpath.forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
    check = SOURCES.get(given[0])
    return found + check(volume[given[0]], f"{path}.{given[0]}") if check else found


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
        found += _file_path(item.get("path") or "", f"{where}.path") + _mode(item, where, "mode")
    return found


def local_path(text: str, path: str) -> list[FieldError]:
    """A relative path that never climbs."""
    found = [fieldpath.invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    return found + no_backstep(text, path)


def no_backstep(text: str, path: str) -> list[FieldError]:
    return [fieldpath.invalid(path, text, "must not contain '..'")] if ".." in text.split("/") else []


def _file_path(text: str, path: str) -> list[FieldError]:
    found = local_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        found.append(fieldpath.invalid(path, text, "must not start with '..'"))
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
    found += _file_path(item.get("path") or "", f"{path}.path") + _mode(item, path, "mode")
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
            found += _file_path(part["path"], f"{volume}.path")
    elif name == "clusterTrustBundle" and not part.get("path"):
        found.append(fieldpath.required(f"{path}.path"))
    return found


def _paths_written(name: str, part: Source) -> list[str]:
    if name == "serviceAccountToken":
        return [part["path"]] if part.get("path") else []
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
    driver = source.get("driver") or ""
    if not driver:
        return [fieldpath.required(f"{path}.driver")]
    return checks.each(f"{path}.driver", driver, names.is_dns1123_subdomain(driver.lower()))


def _image(source: Source, path: str) -> list[FieldError]:
    return [] if source.get("reference") else [fieldpath.required(f"{path}.reference")]


SOURCES: Mapping[str, Callable[[Source, str], list[FieldError]]] = {
    "secret": _secret,
    "configMap": _config_map,
    "downwardAPI": _downward,
    "projected": _projected,
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "csi": _csi,
    "image": _image,
}


def validate_mounts(
    container: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]], path: str, *, privileged: bool
) -> list[FieldError]:
    """``volumeMounts`` of a container, against the pod's volumes by name."""
    found: list[FieldError] = []
    points: set[str] = set()
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
    recursive = mount.get("recursiveReadOnly")
    if recursive not in (None, "Disabled") and not mount.get("readOnly"):
        found.append(fieldpath.forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true"))
    return found
