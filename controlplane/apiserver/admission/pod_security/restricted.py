"""The checks that level restricted adds: what a hardened pod must say. Pure; ``checks`` says which version has which."""

from collections.abc import Mapping
from typing import Any

from controlplane.apiserver.admission.pod_security.baseline import beyond, seccomp_type
from controlplane.apiserver.admission.pod_security.forms import (
    Check,
    Finding,
    Pod,
    containers,
    context_of,
    is_windows,
    names_where,
    one_or_more,
    quoted,
    setters,
    spec_of,
)

_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
_VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"}
)


def unless_windows(check: Check) -> Check:
    return lambda pod: None if is_windows(pod) else check(pod)


def privilege_escalation(pod: Pod) -> Finding | None:
    names = names_where(pod, lambda each: context_of(each).get("allowPrivilegeEscalation") is not False)
    if not names:
        return None
    detail = f"{one_or_more('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail)


def capabilities(pod: Pod) -> Finding | None:
    def keeps(container: Mapping[str, Any]) -> bool:
        return "ALL" not in ((context_of(container).get("capabilities") or {}).get("drop") or ())

    details = []
    if keeping := names_where(pod, keeps):
        details.append(f'{one_or_more("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    names, added = beyond(pod, _CAPABILITIES)
    if names:
        details.append(f"{one_or_more('container', names)} must not include {quoted(added)} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(pod: Pod) -> Finding | None:
    names, kinds = [], set()
    for volume in spec_of(pod).get("volumes") or ():
        bad = sorted(kind for kind, value in volume.items() if kind != "name" and value is not None and kind not in _VOLUMES)
        if bad:
            names.append(volume.get("name", ""))
            kinds.update(bad)
    if not names:
        return None
    verb, noun = "uses" if len(names) == 1 else "use", "type" if len(kinds) == 1 else "types"
    detail = f"{one_or_more('volume', names)} {verb} restricted volume {noun} {quoted(sorted(kinds))}"
    return Finding("restricted volume types", detail)


def run_as_non_root(pod: Pod) -> Finding | None:
    of_pod = context_of(spec_of(pod)).get("runAsNonRoot")
    explicit = names_where(pod, lambda each: context_of(each).get("runAsNonRoot") is False)
    if of_pod is False or explicit:
        detail = f"{setters(of_pod is False, explicit)} must not set securityContext.runAsNonRoot=false"
        return Finding("runAsNonRoot != true", detail)
    if of_pod:
        return None
    silent = names_where(pod, lambda each: context_of(each).get("runAsNonRoot") is None)
    if not silent:
        return None
    detail = f"pod or {one_or_more('container', silent)} must set securityContext.runAsNonRoot=true"
    return Finding("runAsNonRoot != true", detail)


def run_as_user(pod: Pod) -> Finding | None:
    bad_pod = context_of(spec_of(pod)).get("runAsUser") == 0
    names = names_where(pod, lambda each: context_of(each).get("runAsUser") == 0)
    if not bad_pod and not names:
        return None
    return Finding("runAsUser=0", f"{setters(bad_pod, names)} must not set runAsUser=0")


def seccomp(pod: Pod) -> Finding | None:
    good = ("RuntimeDefault", "Localhost")
    of_pod = seccomp_type(spec_of(pod))
    bad_pod = of_pod is not None and of_pod not in good
    names = names_where(pod, lambda each: seccomp_type(each) not in (None, *good))
    if bad_pod or names:
        held = [spec_of(pod), *containers(pod)]
        values = sorted({str(seccomp_type(each)) for each in held if seccomp_type(each) not in (None, *good)})
        detail = f"{setters(bad_pod, names)} must not set securityContext.seccompProfile.type to {quoted(values)}"
        return Finding("seccompProfile", detail)
    if of_pod in good:
        return None
    silent = names_where(pod, lambda each: seccomp_type(each) is None)
    if not silent:
        return None
    who = one_or_more("container", silent)
    detail = f'pod or {who} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", detail)
