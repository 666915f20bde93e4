"""The checks of level baseline: what gives a container a hold on its node. Pure; ``checks`` says which version has which."""

from collections.abc import Mapping
from typing import Any

from controlplane.apiserver.admission.pod_security.forms import (
    Check,
    Finding,
    Pod,
    containers,
    context_of,
    names_where,
    one_or_more,
    quoted,
    setters,
    spec_of,
)

CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
        "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
SYSCTLS_1_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
SYSCTLS_1_27 = SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
SYSCTLS_1_29 = SYSCTLS_1_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
SYSCTLS_1_32 = SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def app_armor(pod: Pod) -> Finding | None:
    allowed = ("RuntimeDefault", "Localhost")

    def kind(holder: Mapping[str, Any]) -> str:
        return str((context_of(holder).get("appArmorProfile") or {}).get("type") or "RuntimeDefault")

    bad_pod = kind(spec_of(pod)) not in allowed
    names = names_where(pod, lambda each: kind(each) not in allowed)
    details = []
    if bad_pod or names:
        values = {kind(each) for each in [spec_of(pod), *containers(pod)]} - set(allowed)
        details.append(f"{setters(bad_pod, names)} must not set AppArmor profile type to {quoted(sorted(values))}")
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    bad = sorted(key for key, value in annotations.items() if key.startswith(_APPARMOR) and not _fine_annotation(value))
    if bad:
        shown = ", ".join(f'{key}="{annotations[key]}"' for key in bad)
        details.append(f"annotation{'' if len(bad) == 1 else 's'} {shown}")
    if not details:
        return None
    many = len(bad) + len(names) + bad_pod > 1
    return Finding("forbidden AppArmor profiles" if many else "forbidden AppArmor profile", ", ".join(details))


def _fine_annotation(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def capabilities(pod: Pod) -> Finding | None:
    names, added = beyond(pod, CAPABILITIES)
    if not names:
        return None
    detail = f"{one_or_more('container', names)} must not include {quoted(added)} in securityContext.capabilities.add"
    return Finding("non-default capabilities", detail)


def beyond(pod: Pod, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Containers that add capabilities which are not allowed, and those capabilities."""

    def extra(container: Mapping[str, Any]) -> set[str]:
        return set((context_of(container).get("capabilities") or {}).get("add") or ()) - allowed

    return names_where(pod, lambda each: bool(extra(each))), sorted(set().union(*(extra(each) for each in containers(pod))))


def host_namespaces(pod: Pod) -> Finding | None:
    spec = spec_of(pod)
    held = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Finding("host namespaces", ", ".join(held)) if held else None


def host_path_volumes(pod: Pod) -> Finding | None:
    names = [each.get("name", "") for each in spec_of(pod).get("volumes") or () if each.get("hostPath") is not None]
    return Finding("hostPath volumes", one_or_more("volume", names)) if names else None


def host_ports(pod: Pod) -> Finding | None:
    names, ports = [], set()
    for container in containers(pod):
        held = {port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")}
        if held:
            names.append(container.get("name", ""))
            ports |= held
    if not names:
        return None
    verb, noun = "uses" if len(names) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return Finding("hostPort", f"{one_or_more('container', names)} {verb} {noun} {', '.join(sorted(map(str, ports)))}")


def probe_hosts(pod: Pod) -> Finding | None:
    """Probes and hooks that name a host would let the kubelet knock at doors the pod cannot reach."""
    names: list[str] = []
    hosts: set[str] = set()
    for container in containers(pod):
        hooks = container.get("lifecycle") or {}
        handlers = [container.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
        handlers += [hooks.get("postStart"), hooks.get("preStop")]
        held = {str((h.get(kind) or {}).get("host") or "") for h in handlers if h for kind in ("httpGet", "tcpSocket")} - {""}
        if held:
            names.append(container.get("name", ""))
            hosts |= held
    if not names:
        return None
    verb, noun = "uses" if len(names) == 1 else "use", "host" if len(hosts) == 1 else "hosts"
    detail = f"{one_or_more('container', names)} {verb} probe or lifecycle {noun} {quoted(sorted(hosts))}"
    return Finding("probe or lifecycle host", detail)


def privileged(pod: Pod) -> Finding | None:
    names = names_where(pod, lambda each: bool(context_of(each).get("privileged")))
    if not names:
        return None
    return Finding("privileged", f"{one_or_more('container', names)} must not set securityContext.privileged=true")


def proc_mount(pod: Pod) -> Finding | None:
    names = names_where(pod, lambda each: (context_of(each).get("procMount") or "Default") != "Default")
    if not names:
        return None
    values = sorted({context_of(each).get("procMount") or "Default" for each in containers(pod)} - {"Default"})
    return Finding("procMount", f"{one_or_more('container', names)} must not set securityContext.procMount to {quoted(values)}")


def selinux(allowed: frozenset[str]) -> Check:
    def check(pod: Pod) -> Finding | None:
        def options(holder: Mapping[str, Any]) -> Mapping[str, Any]:
            held: Mapping[str, Any] = context_of(holder).get("seLinuxOptions") or {}
            return held

        def bad(holder: Mapping[str, Any]) -> bool:
            held = options(holder)
            return bool((held.get("type") or "") not in allowed or held.get("user") or held.get("role"))

        bad_pod, names = bad(spec_of(pod)), names_where(pod, bad)
        if not bad_pod and not names:
            return None
        everything = [options(each) for each in [spec_of(pod), *containers(pod)]]
        types = sorted({held.get("type") or "" for held in everything} - allowed)
        data = [f"type{'' if len(types) == 1 else 's'} {quoted(types)}"] if types else []
        data += [f"{part} may not be set" for part in ("user", "role") if any(held.get(part) for held in everything)]
        return Finding(
            "seLinuxOptions", f"{setters(bad_pod, names)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        )

    return check


SELINUX_1_0 = selinux(_SELINUX_TYPES)
SELINUX_1_31 = selinux(_SELINUX_TYPES | {"container_engine_t"})


def seccomp_type(holder: Mapping[str, Any]) -> str | None:
    profile = context_of(holder).get("seccompProfile")
    return None if profile is None else str(profile.get("type") or "")


def seccomp(pod: Pod) -> Finding | None:
    def bad(holder: Mapping[str, Any]) -> bool:
        return seccomp_type(holder) not in (None, "RuntimeDefault", "Localhost")

    bad_pod, names = bad(spec_of(pod)), names_where(pod, bad)
    if not bad_pod and not names:
        return None
    values = sorted({str(seccomp_type(each)) for each in [spec_of(pod), *containers(pod)] if bad(each)})
    return Finding(
        "seccompProfile", f"{setters(bad_pod, names)} must not set securityContext.seccompProfile.type to {quoted(values)}"
    )


def sysctls(allowed: frozenset[str]) -> Check:
    def check(pod: Pod) -> Finding | None:
        names = [each.get("name", "") for each in context_of(spec_of(pod)).get("sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return Finding("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def windows_host_process(pod: Pod) -> Finding | None:
    def bad(holder: Mapping[str, Any]) -> bool:
        return bool((context_of(holder).get("windowsOptions") or {}).get("hostProcess"))

    bad_pod, names = bad(spec_of(pod)), names_where(pod, bad)
    if not bad_pod and not names:
        return None
    return Finding("hostProcess", f"{setters(bad_pod, names)} must not set securityContext.windowsOptions.hostProcess=true")
