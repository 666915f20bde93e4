"""Validation of security contexts, of pods and of containers."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.local_paths import local_path

_MAX_ID = 2**31 - 1
_MAX_PROFILE = 4095  # the longest path, and the longest name
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


def _seccomp(profile: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
    found = _profile_type(profile, path)
    if profile.get("type") != "Localhost":
        if local is not None:
            found.append(fieldpath.invalid(where, dict(profile), "can only be set when seccomp type is Localhost"))
    elif not local:
        found.append(fieldpath.required(where, "must be set when seccomp type is Localhost"))
    else:
        found += local_path(local, where)
    return found


def _app_armor(profile: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """The profile is one loaded into the kernel, not a file."""
    if profile is None:
        return []
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
    found = _profile_type(profile, path)
    if profile.get("type") != "Localhost":
        if local is not None and not found:
            found.append(fieldpath.invalid(where, local, "can only be set when AppArmor type is Localhost"))
        return found
    if local and local != local.strip():
        found.append(fieldpath.invalid(where, local, "must not be padded with whitespace"))
    elif not local:
        found.append(fieldpath.required(where, "must be set when AppArmor type is Localhost"))
    if local and len(local) > _MAX_PROFILE:
        found.append(fieldpath.too_long(where, _MAX_PROFILE))
    return found


def _profile_type(profile: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, where = profile.get("type"), f"{path}.type"
    if kind in _PROFILES:
        return []
    missing = f"type is required when {path.rpartition('.')[2]} is set"
    return [fieldpath.not_supported(where, kind, _PROFILES) if kind else fieldpath.required(where, missing)]


def validate_container_security(context: Mapping[str, Any], path: str, *, host_users: bool = True) -> list[FieldError]:
    """``host_users``: whether the pod lives in the host's user namespace."""
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
    if mount == "Unmasked" and host_users:
        found.append(fieldpath.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    found += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    return found + _app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def validate_pod_security(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """``securityContext`` of the pod and the host namespaces beside it."""
    context = spec.get("securityContext") or {}
    found: list[FieldError] = []
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(fieldpath.invalid(f"{path}.securityContext.shareProcessNamespace", True, text))
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
    for field, choices in (
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if context.get(field) not in (None, *choices):
            found.append(fieldpath.not_supported(f"{where}.{field}", context[field], choices))
    found += _seccomp(context.get("seccompProfile"), f"{where}.seccompProfile")
    return found + _app_armor(context.get("appArmorProfile"), f"{where}.appArmorProfile")


def _sysctls(context: Mapping[str, Any], spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, entry in enumerate(context.get("sysctls") or ()):
        name, where = entry.get("name") or "", f"{path}.sysctls[{position}].name"
        if not name:
            found.append(fieldpath.required(where))
        elif len(name) > 253 or not _SYSCTL_RE.fullmatch(name):
            text = f"must have at most 253 characters and match regex ^{_SYSCTL_RE.pattern}$"
            found.append(fieldpath.invalid(where, name, text))
        elif name in taken:
            found.append(fieldpath.duplicate(where, name))
        elif name.replace("/", ".").startswith("net.") and spec.get("hostNetwork"):
            found.append(fieldpath.invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        taken.add(name)
    return found
