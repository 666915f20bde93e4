"""Validation of containers: ordinary, init and ephemeral ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.pod_template.env import validate_env
from controlplane.apiserver.kinds.core.pod_template.probes import validate_probes
from controlplane.apiserver.kinds.core.pod_template.security import validate_container_security
from controlplane.apiserver.kinds.core.pod_template.volumes import validate_devices, validate_mounts
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import requirements

Container = Mapping[str, Any]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_INIT_ONLY_TEXT = "may not be set for init containers without restartPolicy=Always"
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MAX_RULES, _MAX_CODES = 20, 255
_SIGNALS = {
    "linux": frozenset(
        {
            *("SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO"),
            *("SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP"),
            *("SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM"),
            *("SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX"),
            *(f"SIGRTMIN+{number}" for number in range(1, 16)),
            *(f"SIGRTMAX-{number}" for number in range(1, 15)),
        }
    ),
    "windows": frozenset({"SIGKILL", "SIGTERM"}),
}
_EPHEMERAL_FORBIDDEN = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")


@dataclass(frozen=True, slots=True)
class PodScope:
    """What the checks of one container must know of its pod."""

    volumes: Mapping[str, Mapping[str, Any]]
    grace: int
    host_network: bool
    is_pod: bool  # a Pod itself, not a template inside another kind
    restart_policy: str = "Always"
    host_users: bool = True
    system: str = ""  # spec.os.name
    claims: Collection[str] = ()  # the names of its resource claims


def validate_containers(spec: Mapping[str, Any], scope: PodScope, path: str) -> list[FieldError]:
    """All containers of the pod spec at ``path``: each one, unique names, and host ports claimed once."""
    containers: Sequence[Container] = spec.get("containers") or ()
    found: list[FieldError] = []
    if not containers:
        found.append(fieldpath.required(f"{path}.containers"))
    taken: set[str] = set()
    host_ports: set[str] = set()
    for position, container in enumerate(containers):
        where = f"{path}.containers[{position}]"
        found += _common(container, scope, where, taken)
        found += validate_probes(container, scope.grace, where) + validate_stop_signal(container, scope.system, where)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            found += validate_restart(container, where)
        if container.get("ports"):
            found += _host_ports(container, where, host_ports)
    for position, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{position}]"
        found += _common(container, scope, where, taken)
        found += _init(container, scope, where)
    if spec.get("ephemeralContainers"):
        found += validate_ephemeral(spec, scope, f"{path}.ephemeralContainers", taken)
    return found


def _common(container: Container, scope: PodScope, path: str, taken: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    name = container.get("name") or ""
    if not name:
        found.append(fieldpath.required(f"{path}.name"))
    else:
        problems = names.is_dns1123_label(name)
        if problems:
            found += checks.each(f"{path}.name", name, problems)
    if name in taken:
        found.append(fieldpath.duplicate(f"{path}.name", name))
    taken.add(name)
    image = container.get("image") or ""
    if not image:
        found.append(fieldpath.required(f"{path}.image"))
    elif scope.is_pod and image != image.strip():
        found.append(fieldpath.invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        found += checks.one_of(container.get("imagePullPolicy"), _PULL_POLICIES, f"{path}.imagePullPolicy")
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        found += checks.one_of(container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    if container.get("ports"):
        found += _ports(container["ports"], scope, f"{path}.ports")
    if container.get("env") or container.get("envFrom"):
        found += validate_env(container, scope.volumes, path)
    security = container.get("securityContext")
    if container.get("volumeMounts"):
        found += validate_mounts(container, scope.volumes, path, privileged=bool(security and security.get("privileged")))
    if container.get("volumeDevices"):
        found += validate_devices(container, scope.volumes, path)
    if container.get("resources"):
        found += requirements(container["resources"], f"{path}.resources", scope.claims)
    if container.get("resizePolicy"):
        found += _resize_policy(container["resizePolicy"], scope.restart_policy, f"{path}.resizePolicy")
    if security:
        found += validate_container_security(security, f"{path}.securityContext", host_users=scope.host_users)
    return found


def _resize_policy(policies: Sequence[Mapping[str, Any]], restart_policy: str, path: str) -> list[FieldError]:
    """Upstream names the list for most of what is wrong, the entry only where it is one too many."""
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in taken:
            found.append(fieldpath.duplicate(f"{path}[{position}]", resource))
        taken.add(resource)
        found += checks.one_of(resource, ("cpu", "memory"), path)
        found += checks.one_of(restart, ("NotRequired", "RestartContainer"), path)
        if restart_policy == "Never" and restart != "NotRequired":
            found.append(fieldpath.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"))
    return found


def validate_restart(container: Container, path: str) -> list[FieldError]:
    """A container's own restart policy and its rules (KEP-5307)."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    found: list[FieldError] = []
    if policy is None:
        found.append(fieldpath.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTART_POLICIES:
        found.append(fieldpath.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _MAX_RULES:
        found.append(fieldpath.too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES))
    for position, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{position}]", rule.get("exitCodes")
        found += checks.one_of(rule.get("action") or "", ("Restart", "RestartAllContainers"), f"{where}.action")
        if codes is None:
            found.append(fieldpath.required(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            found.append(fieldpath.not_supported(f"{where}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
        if len(codes.get("values") or ()) > _MAX_CODES:
            found.append(fieldpath.too_many(f"{where}.exitCodes.values", len(codes["values"]), _MAX_CODES))
    return found


def validate_stop_signal(container: Container, system: str, path: str) -> list[FieldError]:
    """``lifecycle.stopSignal`` (KEP-4960): signals are those of the pod's operating system."""
    signal = (container.get("lifecycle") or {}).get("stopSignal")
    if signal is None:
        return []
    where = f"{path}.lifecycle.stopSignal"
    if system not in _SIGNALS:
        return [fieldpath.forbidden(where, "may not be set for containers with empty `spec.os.name`")]
    return [] if signal in _SIGNALS[system] else [fieldpath.not_supported(where, signal, sorted(_SIGNALS[system]))]


def _ports(ports: Sequence[Mapping[str, Any]], scope: PodScope, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, port in enumerate(ports):
        where = f"{path}[{position}]"
        name = port.get("name")
        if name:
            problems = names.is_port_name(name)
            found += checks.each(f"{where}.name", name, problems)
            if not problems and name in taken:
                found.append(fieldpath.duplicate(f"{where}.name", name))
            taken.add(name)
        number, host = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            found.append(fieldpath.required(f"{where}.containerPort"))
        else:
            found += checks.each(f"{where}.containerPort", number, names.is_port_number(number))
        if host:
            found += checks.each(f"{where}.hostPort", host, names.is_port_number(host))
        if port.get("protocol") not in _PROTOCOLS:
            found += checks.one_of(port.get("protocol"), _PROTOCOLS, f"{where}.protocol")
        if scope.host_network and host != number and (scope.is_pod or host):
            found.append(fieldpath.invalid(f"{where}.hostPort", host, "must match `containerPort` when `hostNetwork` is true"))
    return found


def _host_ports(container: Container, path: str, taken: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for position, port in enumerate(container["ports"]):
        if not port.get("hostPort"):
            continue
        claim = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
        if claim in taken:
            found.append(fieldpath.duplicate(f"{path}.ports[{position}].hostPort", claim))
        taken.add(claim)
    return found


def _init(container: Container, scope: PodScope, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
        found = validate_restart(container, path)
    if container.get("restartPolicy") == "Always":
        return found + validate_probes(container, scope.grace, path) + validate_stop_signal(container, scope.system, path)
    fields = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    return found + [
        fieldpath.forbidden(f"{path}.{field}", _INIT_ONLY_TEXT) for field in fields if container.get(field) is not None
    ]


def validate_ephemeral(spec: Mapping[str, Any], scope: PodScope, path: str, taken: set[str]) -> list[FieldError]:
    """Containers added to a running pod: no ports, probes, hooks or resources; a target that exists."""
    found: list[FieldError] = []
    others = {one.get("name") for part in ("containers", "initContainers") for one in spec.get(part) or ()}
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        where = f"{path}[{position}]"
        found += _common(container, scope, where, taken)
        for field in _EPHEMERAL_FORBIDDEN:
            if container.get(field):
                found.append(fieldpath.forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container"))
        if container.get("resources"):
            found.append(fieldpath.forbidden(f"{where}.resources", "cannot be set for an Ephemeral Container"))
        target = container.get("targetContainerName")
        if target and target not in others:
            found.append(fieldpath.not_found(f"{where}.targetContainerName", target))
        for at, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    text = "cannot be set for an Ephemeral Container"
                    found.append(fieldpath.forbidden(f"{where}.volumeMounts[{at}].{field}", text))
    return found
