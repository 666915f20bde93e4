"""Validation of security contexts, of pods and of containers."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.volumes import local_path

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_RE = re.compile(rf"({_SYSCTL}[\./])*{_SYSCTL}")


def _ids(context: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= _MAX_ID:
            found.append(fieldpath.invalid(f"{path}.{field}", value, names.range_error(0, _MAX_ID)))
    return found


def _profile(profile: Mapping[str, Any] | None, path: str, name: str) -> list[FieldError]:
    """A seccomp or AppArmor profile; ``path`` ends in the field's own name."""
    if profile is None:
        return []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    found: list[FieldError] = []
    if kind not in _PROFILES:
        missing = f"type is required when {path.rpartition('.')[2]} is set"
        where = f"{path}.type"
        found.append(fieldpath.not_supported(where, kind, _PROFILES) if kind else fieldpath.required(where, missing))
    if kind == "Localhost":
        if not local:
            text = f"must be set when {name} type is Localhost"
            found.append(fieldpath.required(f"{path}.localhostProfile", text))
        else:
            found += local_path(local, f"{path}.localhostProfile")
    elif local is not None:
        found.append(fieldpath.invalid(f"{path}.localhostProfile", local, f"can only be set when {name} type is Localhost"))
    return found


def validate_container_security(context: Mapping[str, Any], path: str) -> list[FieldError]:
    found = _ids(context, path)
    added = (context.get("capabilities") or {}).get("add") or ()
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            found.append(fieldpath.invalid(path, dict(context), text))
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(fieldpath.invalid(path, dict(context), text))
    mount = context.get("procMount")
    if mount not in (None, "Default", "Unmasked"):
        found.append(fieldpath.not_supported(f"{path}.procMount", mount, ("Default", "Unmasked")))
    found += _profile(context.get("seccompProfile"), f"{path}.seccompProfile", "seccomp")
    return found + _profile(context.get("appArmorProfile"), f"{path}.appArmorProfile", "AppArmor")


def validate_pod_security(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """``securityContext`` of the pod and the host namespaces beside it."""
    context = spec.get("securityContext") or {}
    found: list[FieldError] = []
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(fieldpath.invalid(f"{path}.shareProcessNamespace", True, text))
    if spec.get("hostUsers") is False:
        given = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
        found += [fieldpath.forbidden(f"{path}.{field}", "when `hostUsers` is false") for field in given]
    if not context:
        return found
    where = f"{path}.securityContext"
    found += _ids(context, where)
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_ID:
            text = names.range_error(0, _MAX_ID)
            found.append(fieldpath.invalid(f"{where}.supplementalGroups[{position}]", group, text))
    found += _sysctls(context, spec, where)
    policy = context.get("fsGroupChangePolicy")
    if policy not in (None, "Always", "OnRootMismatch"):
        found.append(fieldpath.not_supported(f"{where}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    found += _profile(context.get("seccompProfile"), f"{where}.seccompProfile", "seccomp")
    return found + _profile(context.get("appArmorProfile"), f"{where}.appArmorProfile", "AppArmor")


def _sysctls(context: Mapping[str, Any], spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, entry in enumerate(context.get("sysctls") or ()):
        name, where = entry.get("name") or "", f"{path}.sysctls[{position}].name"
        if not name:
            found.append(fieldpath.required(where))
        elif len(name) > 253 or not _SYSCTL_RE.fullmatch(name):
            text = f"must have at most 253 characters and match regex {_SYSCTL_RE.pattern}"
            found.append(fieldpath.invalid(where, name, text))
        elif name in taken:
            found.append(fieldpath.duplicate(where, name))
        elif name.startswith("net.") and spec.get("hostNetwork"):
            found.append(fieldpath.invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        taken.add(name)
    return found
