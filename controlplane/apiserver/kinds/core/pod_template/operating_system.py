"""Validation of ``spec.os``: a pod that says which system it is for uses no field of another one."""

from collections.abc import Iterator, Mapping
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks

Object = Mapping[str, Any]

_SYSTEMS = ("linux", "windows")
_LINUX_OF_PODS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"),
    *("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_LINUX_OF_SPECS = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_LINUX_OF_CONTAINERS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem"),
    *("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def validate_system(spec: Object, path: str) -> list[FieldError]:
    """Upstream's ``validateOS``, ``validateLinux`` and ``validateWindows``."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name") or ""
    if name == "linux":
        return _foreign(spec, path, (), ("windowsOptions",), ("windowsOptions",), "windows options cannot be set for a linux pod")
    if name == "windows":
        text = "cannot be set for a windows pod"
        return _foreign(spec, path, _LINUX_OF_SPECS, _LINUX_OF_PODS, _LINUX_OF_CONTAINERS, text)
    return checks.one_of(name, _SYSTEMS, f"{path}.os.name")


def _foreign(
    spec: Object, path: str, of_spec: tuple[str, ...], of_pod: tuple[str, ...], of_container: tuple[str, ...], text: str
) -> list[FieldError]:
    # false is as good as absent for the host's namespaces, but not for what is a pointer upstream
    given = [
        field for field in of_spec if spec.get(field) or (field not in ("hostPID", "hostIPC") and spec.get(field) is not None)
    ]
    found = [fieldpath.forbidden(f"{path}.{field}", text) for field in given]
    found += _of_context(spec.get("securityContext"), f"{path}.securityContext", of_pod, text)
    for where, container in _containers(spec, path):
        found += _of_context(container.get("securityContext"), f"{where}.securityContext", of_container, text)
    return found


def _of_context(context: Object | None, path: str, fields: tuple[str, ...], text: str) -> list[FieldError]:
    return [fieldpath.forbidden(f"{path}.{field}", text) for field in fields if (context or {}).get(field) not in (None, [])]


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(part) or ()):
            yield f"{path}.{part}[{position}]", container
