"""Validation of environment variables and of the references they and downward API files are taken from."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.local_paths import local_path
from controlplane.apiserver.kinds.shared import checks

_ENV_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
FILE_FIELDS = frozenset({"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"})
_KNOWN_FIELDS = _ENV_FIELDS | FILE_FIELDS
_RESOURCES = frozenset(f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage"))
_SUBSCRIPT_RE = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_env(container: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]], path: str) -> list[FieldError]:
    """``env`` and ``envFrom`` of a container at ``path``; ``volumes`` are the pod's, by name."""
    found: list[FieldError] = []
    for position, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        if not name:
            found.append(fieldpath.required(f"{path}.env[{position}].name"))
        else:
            found += checks.each(f"{path}.env[{position}].name", name, names.is_environment_name(name))
        source = variable.get("valueFrom")
        if source is not None:
            found += _value_from(variable, source, f"{path}.env[{position}].valueFrom")
            if (reference := source.get("fileKeyRef")) is not None:
                found += _file_volume(reference, volumes, f"{path}.env[{position}].valueFrom.fileKeyRef.volumeName")
    for position, source in enumerate(container.get("envFrom") or ()):
        found += _env_from(source, f"{path}.envFrom[{position}]", f"{path}.envFrom")
    return found


def _value_from(variable: Mapping[str, Any], source: Mapping[str, Any], path: str) -> list[FieldError]:
    given = [name for name in _SOURCES if source.get(name) is not None]
    found: list[FieldError] = []
    for name in given:
        value, where = source[name], f"{path}.{name}"
        if name == "fieldRef":
            found += validate_field_ref(value, where, _ENV_FIELDS)
        elif name == "resourceFieldRef":
            found += validate_resource_ref(value, where, volume=False)
        elif name == "fileKeyRef":
            found += _file_key_ref(value, where)
        else:
            found += _key_ref(value, where)
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        found.append(fieldpath.invalid(path, "", text))
    elif variable.get("value"):
        found.append(fieldpath.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        found.append(fieldpath.invalid(path, "", "may not have more than one field specified at a time"))
    return found


def _key_ref(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    name = reference.get("name") or ""
    found += checks.each(f"{path}.name", name, names.is_dns1123_subdomain(name))
    key = reference.get("key") or ""
    if not key:
        found.append(fieldpath.required(f"{path}.key"))
    else:
        found += checks.each(f"{path}.key", key, names.is_config_key(key))
    return found


def _file_key_ref(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    """A ``FileKeySelector`` (KEP-3721)."""
    found = [fieldpath.required(f"{path}.{field}") for field in ("volumeName", "path", "key") if not reference.get(field)]
    if key := reference.get("key"):
        found += checks.each(f"{path}.key", key, names.is_environment_name(key))
    if inside := reference.get("path"):
        found += local_path(inside, f"{path}.path")
    return found


def _file_volume(reference: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]], path: str) -> list[FieldError]:
    name = reference.get("volumeName") or ""
    if not name:
        return []
    if name not in volumes:
        return [fieldpath.not_found(path, name)]
    if volumes[name].get("emptyDir") is None:
        return [fieldpath.invalid(path, name, "referenced volume must be of type emptyDir")]
    return []


def _env_from(source: Mapping[str, Any], path: str, whole: str) -> list[FieldError]:
    """``whole`` is the path of the list: upstream names it where a source is missing or doubled."""
    found: list[FieldError] = []
    prefix = source.get("prefix")
    if prefix:
        found += checks.each(f"{path}.prefix", prefix, names.is_environment_name(prefix))
    given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
    for name in given:
        referred = source[name].get("name") or ""
        if not referred:
            found.append(fieldpath.required(f"{path}.{name}.name"))
        else:
            found += checks.each(f"{path}.{name}.name", referred, names.is_dns1123_subdomain(referred))
    if not given:
        found.append(fieldpath.invalid(whole, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(given) > 1:
        found.append(fieldpath.invalid(whole, "", "may not have more than one field specified at a time"))
    return found


def validate_field_ref(reference: Mapping[str, Any], path: str, fields: frozenset[str]) -> list[FieldError]:
    """An ``ObjectFieldSelector``; ``fields`` are the paths that this place accepts without a subscript."""
    field = reference.get("fieldPath") or ""
    if not reference.get("apiVersion"):
        return [fieldpath.required(f"{path}.apiVersion")]
    if not field:
        return [fieldpath.required(f"{path}.fieldPath")]
    subscripted = _SUBSCRIPT_RE.fullmatch(field)
    if subscripted:
        base, key = subscripted[1], subscripted[2]
        if base == "metadata.annotations":
            return checks.each(path, key, names.is_qualified_name(key.lower()))
        if base == "metadata.labels":
            return checks.each(path, key, names.is_qualified_name(key))
        if base in _KNOWN_FIELDS:
            return [fieldpath.invalid(path, base, "does not support subscript")]
    if field not in _KNOWN_FIELDS:
        text = f"error converting fieldPath: field label not supported: {field}"
        return [fieldpath.invalid(f"{path}.fieldPath", field, text)]
    return [] if field in fields else [fieldpath.not_supported(f"{path}.fieldPath", field, sorted(fields))]


_DIVISORS = {
    "cpu": frozenset({"1m", "1"}),
    "memory": frozenset({"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}),
}


def validate_resource_ref(reference: Mapping[str, Any], path: str, *, volume: bool) -> list[FieldError]:
    """A ``ResourceFieldSelector``; files must name the container, variables mean their own."""
    resource = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [fieldpath.required(f"{path}.containerName")]
    if not resource:
        return [fieldpath.required(f"{path}.resource")]
    kind = resource.partition(".")[2]
    if resource not in _RESOURCES and not kind.startswith("hugepages-"):
        return [fieldpath.not_supported(f"{path}.resource", resource, sorted(_RESOURCES))]
    divisor = quantity.canonical(reference.get("divisor") or "0")
    allowed = _DIVISORS["cpu" if kind == "cpu" else "memory"]
    if divisor == "0" or divisor in allowed or divisor == "1024":
        return []
    what = "cpu" if kind == "cpu" else "memory" if kind == "memory" else kind
    listed = "1m and 1" if kind == "cpu" else "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
    return [
        fieldpath.invalid(f"{path}.divisor", divisor, f"only divisor's values {listed} are supported with the {what} resource")
    ]
